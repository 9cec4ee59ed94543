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

    /// The sum as a whole number, for a page; `-` where it is unknown.
    pub fn whole(&self, name: &str, labels: &[(&str, &str)]) -> String {
        let value = self.sum(name, labels);
        value.map_or("-".to_owned(), |value| format!("{value:.0}"))
    }

    /// The batch sessions of a scheduler in words: their number, their mean duration and how many jobs wait. `None` if it runs
    /// none.
    pub fn batch_sessions(&self) -> Option<String> {
        let latency = "volcano_e2e_scheduling_latency_milliseconds";
        let count = self.sum(&format!("{latency}_count"), &[])?;
        let sum = self.sum(&format!("{latency}_sum"), &[])?;
        let average = match count {
            ..1.0 => "none has run".to_owned(),
            count => format!("{count:.0} of {:.0} ms on average", sum / count),
        };
        let waiting = self.whole("volcano_unschedule_job_count", &[]);
        Some(format!("{average}; jobs that wait: {waiting}"))
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
        assert_eq!(samples.whole("up", &[]), "2");
        assert_eq!(samples.whole("down", &[]), "-");
        assert_eq!(samples.by("share", "queue"), [("a\"},b\\\n", 0.25)]);
        assert!(samples.by("broken", "x").is_empty() && samples.by("bad", "x").is_empty());
    }

    #[test]
    fn sessions_have_a_mean_once_one_has_run() {
        let latency = "volcano_e2e_scheduling_latency_milliseconds";
        let sessions = |count: u32, more: &str| {
            let text = format!("{latency}_count {count}\n{latency}_sum 90\n{more}");
            Samples::parse(&text).batch_sessions().unwrap()
        };
        assert_eq!(sessions(0, ""), "none has run; jobs that wait: -");
        let waiting = "volcano_unschedule_job_count 3\n";
        assert_eq!(
            sessions(4, waiting),
            "4 of 22 ms on average; jobs that wait: 3"
        );
        assert_eq!(Samples::default().batch_sessions(), None);
    }
}
