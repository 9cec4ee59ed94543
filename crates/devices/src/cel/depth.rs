//! How deeply an expression may be nested. To parse it and to evaluate it takes some of the stack for each level, and whoever
//! makes claims could have a program run out of it.

/// The most brackets that are open at a time.
const MOST_BRACKETS: usize = 16;
/// The most operators between two of `&&` and `||`, whose operands do not nest.
const MOST_OPERATORS: usize = 64;

/// Why an expression is not read: it might nest too deeply.
pub(crate) fn excess(text: &str) -> Option<String> {
    let (mut brackets, mut operators) = (0usize, 0usize);
    let mut rest = Rest(text.as_bytes());
    while let Some(token) = rest.next() {
        match token {
            b'(' | b'[' | b'{' => {
                brackets += 1;
                operators += 1;
            }
            b')' | b']' | b'}' => brackets = brackets.saturating_sub(1),
            b'&' | b'|' => operators = 0,
            b'+' | b'-' | b'*' | b'/' | b'%' | b'.' | b'?' | b'!' | b'=' | b'<' | b'>' | b' ' => {
                operators += 1;
            }
            _ => {}
        }
        if brackets > MOST_BRACKETS {
            return Some(format!(
                "more than {MOST_BRACKETS} brackets are open at a time"
            ));
        }
        if operators > MOST_OPERATORS {
            return Some(format!(
                "more than {MOST_OPERATORS} operators between two of && and ||"
            ));
        }
    }
    None
}

/// What is left of a text.
struct Rest<'t>(&'t [u8]);

impl Rest<'_> {
    /// The next byte that is in no text literal, comment or space. A space stands for the operator `in`.
    fn next(&mut self) -> Option<u8> {
        let mut is_raw = false;
        loop {
            let (first, rest) = self.0.split_first()?;
            match first {
                b'"' | b'\'' => self.pass_literal(*first, is_raw),
                b'/' if rest.first() == Some(&b'/') => {
                    let end = rest.iter().position(|byte| *byte == b'\n');
                    self.0 = &rest[end.unwrap_or(rest.len())..];
                }
                b'i' if rest.starts_with(b"n ") => {
                    self.0 = &rest[2..];
                    return Some(b' ');
                }
                byte if byte.is_ascii_whitespace() => self.0 = rest,
                b'r' | b'R' => {
                    self.0 = rest;
                    is_raw = true;
                    continue;
                }
                byte => {
                    self.0 = rest;
                    return Some(*byte);
                }
            }
            is_raw = false;
        }
    }

    fn pass_literal(&mut self, quote: u8, is_raw: bool) {
        let triple = [quote; 3];
        let end: &[u8] = if self.0.starts_with(&triple) {
            &triple
        } else {
            &triple[..1]
        };
        let mut at = end.len();
        while at < self.0.len() && !self.0[at..].starts_with(end) {
            at += if self.0[at] == b'\\' && !is_raw { 2 } else { 1 };
        }
        self.0 = self.0.get(at + end.len()..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_shallow_and_what_could_use_up_the_stack_is_not_read() {
        let one = "device.capacity['gpu.example.com'].memory.compareTo(quantity('10Gi')) >= 0";
        assert_eq!(excess(&[one; 100].join(" && ")), None);
        assert_eq!(
            excess(&format!("device.driver in ['{}']", "(".repeat(99))),
            None
        );
        assert_eq!(excess(&format!(r"true // {}", "(".repeat(99))), None);
        for (open, count) in [
            ("(", 17),
            ("[", 17),
            ("1+", 65),
            ("a.", 65),
            ("!", 65),
            ("a in ", 65),
            ("a ? b : ", 65),
        ] {
            assert!(excess(&open.repeat(count)).is_some(), "{open}");
            assert_eq!(excess(&open.repeat(count / 4)), None, "{open}");
        }
        // What is in a text resets nothing, however it ends.
        for literal in [
            "'&&'",
            "\"&&\"",
            r"r'\&&'",
            r"'\'&&'",
            "'''&&'''",
            r#"r"&&\""#,
        ] {
            assert!(
                excess(&format!("{literal}+").repeat(65)).is_some(),
                "{literal}"
            );
        }
        assert!(excess(&format!(r"r'\' {}", "+1".repeat(65))).is_some());
    }
}
