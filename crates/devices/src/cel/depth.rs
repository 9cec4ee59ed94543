//! Limits the nesting of an expression. Parsing and evaluation use stack for each level, and claims come from untrusted
//! users.

/// How many brackets may be open at a time.
const MOST_BRACKETS: usize = 16;
/// How many operators one bracket may have between two of `&&` and `||`. The operands of those do not nest.
const MOST_OPERATORS: usize = 64;

/// Why an expression is rejected: it may nest too deeply.
pub(crate) fn excess(text: &str) -> Option<String> {
    // Operators per open bracket, the innermost last. The content of a bracket does not reset the counts around it.
    let mut operators = vec![0usize];
    let mut rest = Rest(text.as_bytes());
    while let Some(token) = rest.next() {
        let is_nested = operators.len() > 1;
        let innermost = operators.last_mut()?;
        match token {
            Token::Open => {
                *innermost += 1;
                operators.push(0);
            }
            Token::Close if is_nested => {
                operators.pop();
            }
            Token::Logical => *innermost = 0,
            Token::Operator => *innermost += 1,
            Token::Close | Token::Other => {}
            Token::Unended => return Some("a text in it has no end".to_owned()),
            Token::Quoted => return Some("names cannot be quoted".to_owned()),
        }
        if operators.len() > MOST_BRACKETS + 1 {
            return Some(format!(
                "more than {MOST_BRACKETS} brackets are open at a time"
            ));
        }
        if operators.iter().any(|count| *count > MOST_OPERATORS) {
            return Some(format!(
                "more than {MOST_OPERATORS} operators between two of && and ||"
            ));
        }
    }
    None
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Open,
    Close,
    /// One of the two characters of `&&` or `||`.
    Logical,
    Operator,
    /// A string literal that does not end on its line, which no parser accepts.
    Unended,
    /// A name between backticks.
    Quoted,
    Other,
}

/// The rest of the expression.
struct Rest<'t>(&'t [u8]);

impl Rest<'_> {
    /// The next token, without comments and spaces.
    fn next(&mut self) -> Option<Token> {
        loop {
            let (first, rest) = self.0.split_first()?;
            let token = match first {
                b'/' if rest.first() == Some(&b'/') => {
                    let end = rest.iter().position(|byte| *byte == b'\n');
                    self.0 = &rest[end.unwrap_or(rest.len())..];
                    continue;
                }
                byte if byte.is_ascii_whitespace() => {
                    self.0 = rest;
                    continue;
                }
                b'"' | b'\'' => return Some(self.literal(*first, false)),
                byte if byte.is_ascii_alphanumeric() || *byte == b'_' => return Some(self.word()),
                b'`' => Token::Quoted,
                b'(' | b'[' | b'{' => Token::Open,
                b')' | b']' | b'}' => Token::Close,
                b'&' | b'|' => Token::Logical,
                b'+' | b'-' | b'*' | b'/' | b'%' | b'.' | b'?' | b'!' | b'=' | b'<' | b'>' => {
                    Token::Operator
                }
                _ => Token::Other,
            };
            self.0 = rest;
            return Some(token);
        }
    }

    /// A name, a number, the operator `in`, or a string literal with a prefix.
    fn word(&mut self) -> Token {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let end = self.0.iter().position(|byte| !is_part(byte));
        let (word, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest;
        if let Some(quote @ (b'"' | b'\'')) = rest.first() {
            let prefix = word.to_ascii_lowercase();
            if matches!(&*prefix, b"r" | b"b" | b"br" | b"rb") {
                return self.literal(*quote, prefix.contains(&b'r'));
            }
        }
        // A number may be followed by the operator without a space.
        let of_number = word.first().is_some_and(u8::is_ascii_digit) && word.ends_with(b"in");
        if word == b"in" || of_number {
            return Token::Operator;
        }
        Token::Other
    }

    fn literal(&mut self, quote: u8, is_raw: bool) -> Token {
        let triple = [quote; 3];
        let is_triple = self.0.starts_with(&triple);
        let end: &[u8] = if is_triple { &triple } else { &triple[..1] };
        let mut at = end.len();
        while at < self.0.len() && !self.0[at..].starts_with(end) {
            let passed = if self.0[at] == b'\\' && !is_raw { 2 } else { 1 };
            let breaks = |byte: &u8| matches!(byte, b'\n' | b'\r');
            if !is_triple && self.0[at..].iter().take(passed).any(breaks) {
                return Token::Unended;
            }
            at += passed;
        }
        let Some(rest) = self.0.get(at + end.len()..) else {
            return Token::Unended;
        };
        self.0 = rest;
        Token::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_expressions_are_shallow_and_deep_ones_are_rejected() {
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
            ("a in\t", 65),
            ("'a' in'a'", 65),
            ("0x1in ", 65),
            ("a ? b : ", 65),
            // The content of a bracket resets no count around it.
            ("(a && b) == ", 65),
            ("[a || b] + ", 65),
        ] {
            assert!(excess(&open.repeat(count)).is_some(), "{open}");
            assert_eq!(excess(&open.repeat(count / 4)), None, "{open}");
        }
        // The content of a string literal resets no count, however the literal ends.
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
        // Invalid literals and names hide nothing after them.
        for hidden in ["'\n", "'\\\n", "a.`//`", "'''", "br'\\"] {
            let text = format!("{hidden}{}", "+1".repeat(65));
            assert!(excess(&text).is_some(), "{text}");
        }
        let nested = format!(
            "[{}].exists(x, x)",
            ["device.driver == 'a' && true"; 4].join(", ")
        );
        assert_eq!(excess(&[nested.as_str(); 20].join(" || ")), None);
    }
}
