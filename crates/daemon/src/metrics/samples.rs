//! The samples of a scrape, for commands that show another daemon's metrics.

/// A scrape in the older text format of Prometheus. Other lines are skipped.
#[derive(Debug, Clone, Default)]
pub struct Samples(Vec<Sample>);

#[derive(Debug, Clone)]
struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

impl Samples {
    /// Reads a scrape.
    pub fn parse(text: &str) -> Self {
        Self(text.lines().filter_map(Sample::parse).collect())
    }

    /// The sum of the samples of this name that have these labels. `None` if there is no such sample.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let wanted = |sample: &&Sample| {
            let has = |(key, value): &(&str, &str)| sample.label(key) == Some(value);
            sample.name == name && labels.iter().all(has)
        };
        let values = self.0.iter().filter(wanted).map(|sample| sample.value);
        values.reduce(|sum, value| sum + value)
    }

    /// The values of a metric by one of its labels, in the order of the scrape.
    pub fn by<'a>(&'a self, name: &str, label: &str) -> Vec<(&'a str, f64)> {
        let of_name = self.0.iter().filter(|sample| sample.name == name);
        let values = of_name.filter_map(|sample| Some((sample.label(label)?, sample.value)));
        values.collect()
    }
}

impl Sample {
    /// `name{label="value",..} 1.5`, perhaps with a time behind it.
    fn parse(line: &str) -> Option<Self> {
        let end = line.find(['{', ' '])?;
        let (name, rest) = line.split_at(end);
        if name.is_empty() || name.starts_with('#') {
            return None;
        }
        let (labels, rest) = match rest.strip_prefix('{') {
            Some(rest) => labels(rest)?,
            None => (Vec::new(), rest),
        };
        Some(Self {
            name: name.to_owned(),
            labels,
            value: rest.split_whitespace().next()?.parse().ok()?,
        })
    }

    fn label(&self, name: &str) -> Option<&str> {
        let mut labels = self.labels.iter();
        let (_, value) = labels.find(|(label, _)| label == name)?;
        Some(value)
    }
}

/// The labels up to `}`, and the text behind it.
fn labels(mut rest: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut characters = quoted.char_indices();
        rest = loop {
            match characters.next()? {
                (at, '"') => break &quoted[at + 1..],
                (_, '\\') => value.push(match characters.next()? {
                    (_, 'n') => '\n',
                    (_, escaped) => escaped,
                }),
                (_, character) => value.push(character),
            }
        };
        labels.push((name.trim().to_owned(), value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_found_by_name_and_labels() {
        let samples = Samples::parse(
            "# HELP a_total [STABLE] Attempts\n# TYPE a_total counter\n\
             a_total{result=\"scheduled\",profile=\"x\"} 3\na_total{result=\"scheduled\",profile=\"y\"} 4\n\
             a_total{result=\"error\",profile=\"x\"} 0\nup 1.5 1700000000\n\
             share{queue=\"a\\\"},b\\\\\\n\"} 0.25\nbroken{x=\"\nbroken\nbroken{ 1\nbad x\n",
        );
        assert_eq!(samples.sum("a_total", &[]), Some(7.0));
        assert_eq!(
            samples.sum("a_total", &[("result", "scheduled")]),
            Some(7.0)
        );
        assert_eq!(samples.sum("a_total", &[("result", "error")]), Some(0.0));
        // Unknown is not zero.
        assert_eq!(samples.sum("a_total", &[("result", "other")]), None);
        assert_eq!(samples.sum("up", &[]), Some(1.5));
        assert_eq!(samples.by("share", "queue"), [("a\"},b\\\n", 0.25)]);
        assert!(samples.by("broken", "x").is_empty() && samples.by("bad", "x").is_empty());
    }
}
