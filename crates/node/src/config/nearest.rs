//! "Did you mean ...?"

/// The known name nearest to what was written; small letters and capitals count as the same.
pub(super) fn nearest<'a>(
    written: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let written = written.to_lowercase();
    known
        .into_iter()
        .min_by_key(|name| distance(&written, &name.to_lowercase()))
}

/// As [`nearest`], but only a name that was probably meant: at most a third of it is different.
pub(super) fn close<'a>(
    written: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    nearest(written, known).filter(|name| {
        let different = distance(&written.to_lowercase(), &name.to_lowercase());
        different * 3 <= name.len().max(3)
    })
}

/// Letters to insert, delete, replace or swap with their neighbour, to make one of the other.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    let mut previous = None;
    for (index, letter) in left.chars().enumerate() {
        let mut next = vec![index + 1];
        for (column, other) in right.iter().enumerate() {
            let replaced = row[column] + usize::from(letter != *other);
            let mut least = replaced.min(row[column + 1] + 1).min(next[column] + 1);
            let swapped = column > 0 && previous == Some(*other) && right[column - 1] == letter;
            if swapped {
                least = least.min(before[column - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
        previous = Some(letter);
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        let table = [
            ("", "", 0),
            ("abc", "", 3),
            ("", "abc", 3),
            ("kitten", "sitting", 3),
            ("evictionHrad", "evictionHard", 1),
            ("ab", "ba", 1),
            ("a", "b", 1),
        ];
        for (left, right, expected) in table {
            assert_eq!(distance(left, right), expected, "{left} {right}");
        }
    }

    #[test]
    fn the_nearest_name() {
        let known = ["memory.available", "nodefs.available", "pid.available"];
        assert_eq!(nearest("memory.availble", known), Some("memory.available"));
        assert_eq!(nearest("MEMORY.AVAILABLE", known), Some("memory.available"));
        assert_eq!(close("memory.availble", known), Some("memory.available"));
        assert_eq!(close("unrelated", known), None);
    }
}
