//! How deeply an expression may be nested. To parse it and to evaluate it takes some of the stack for each level, and whoever
//! makes claims could have a program run out of it.

/// The most brackets that are open at a time.
const MOST_BRACKETS: usize = 16;
/// The most operators of one bracket between two of `&&` and `||`, whose operands do not nest.
const MOST_OPERATORS: usize = 64;

/// Why an expression is not read: it might nest too deeply.
pub(crate) fn excess(text: &str) -> Option<String> {
    // The operators of each open bracket, and last those of the innermost one: what is in a bracket resets nothing around it.
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
        if operators.iter().any(|own| *own > MOST_OPERATORS) {
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
    /// A text that does not end on its line, which nothing reads as one.
    Unended,
    /// A name between backticks.
    Quoted,
    Other,
}

/// What is left of a text.
struct Rest<'t>(&'t [u8]);

impl Rest<'_> {
    /// The next token that is no comment or space.
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

    /// A name, a number, the operator `in`, or a text with letters before its quote.
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
        // A number needs no space before the operator.
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
            ("a in\t", 65),
            ("'a' in'a'", 65),
            ("0x1in ", 65),
            ("a ? b : ", 65),
            // What is in a bracket resets nothing around it.
            ("(a && b) == ", 65),
            ("[a || b] + ", 65),
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
        // What nothing reads as a text, or as a name, hides nothing.
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
