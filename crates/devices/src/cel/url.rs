//! URLs as Go reads them (`net/url`), because Kubernetes' CEL library does.

use core::net::Ipv6Addr;

/// A parsed URL. Equal URLs have equal parts after percent-encodings are undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) scheme: String,
    /// The part after the scheme of a URL without a path, such as `a@b` of `mailto:a@b`.
    opaque: String,
    user: Option<(Vec<u8>, Option<Vec<u8>>)>,
    /// With the port, and with the brackets of IPv6.
    pub(crate) host: String,
    /// Percent-encoded.
    pub(crate) path: String,
    has_empty_query: bool,
    query: String,
    fragment: Vec<u8>,
}

/// The part that is read. Each part of a URL allows other characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    User,
    Host,
    Zone,
    Path,
    Query,
    Fragment,
}

impl Url {
    /// Reads an absolute URI or an absolute path.
    ///
    /// # Errors
    /// Why it is none, in Go's words.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let in_context = |error: String| format!("parse {:?}: {error}", shown(text));
        Self::request_uri(text).map_err(in_context)?;
        let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url = Self::parse(before, false).map_err(in_context)?;
        url.fragment = decoded(fragment, Part::Fragment).map_err(in_context)?;
        Ok(url)
    }

    /// Whether it is an absolute URI or an absolute path, where a fragment belongs to the path.
    ///
    /// # Errors
    /// Why it is none, in Go's words.
    pub(crate) fn request_uri(text: &str) -> Result<(), String> {
        Self::parse(text, true).map(drop)
    }

    fn parse(text: &str, of_request: bool) -> Result<Self, String> {
        if text.bytes().any(|byte| byte.is_ascii_control()) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        if text.is_empty() && of_request {
            return Err("empty url".to_owned());
        }
        let (scheme, rest) = scheme(text)?;
        let has_empty_query = rest.ends_with('?') && rest.matches('?').count() == 1;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut url = Self {
            scheme: scheme.to_ascii_lowercase(),
            opaque: String::new(),
            user: None,
            host: String::new(),
            path: String::new(),
            has_empty_query,
            query: query.to_owned(),
            fragment: Vec::new(),
        };
        if text == "*" {
            "*".clone_into(&mut url.path);
            return Ok(url);
        }
        if !rest.starts_with('/') {
            if !scheme.is_empty() {
                rest.clone_into(&mut url.opaque);
                return Ok(url);
            }
            if of_request {
                return Err("invalid URI for request".to_owned());
            }
        }
        let may_have_host = !scheme.is_empty() || !of_request && !rest.starts_with("///");
        let path = match rest.strip_prefix("//") {
            Some(rest) if may_have_host => {
                let end = rest.find('/').unwrap_or(rest.len());
                let (authority, path) = rest.split_at(end);
                url.authority(authority)?;
                path
            }
            _ => rest,
        };
        let unescaped = decoded(path, Part::Path)?;
        url.path = if path.bytes().all(stays_in_path) {
            path.to_owned()
        } else {
            encoded(&unescaped)
        };
        Ok(url)
    }

    fn authority(&mut self, text: &str) -> Result<(), String> {
        let (user, host) = match text.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, text),
        };
        self.host = read_host(host)?;
        let Some(user) = user else {
            return Ok(());
        };
        let allowed =
            |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
        if !user.bytes().all(allowed) {
            return Err("net/url: invalid userinfo".to_owned());
        }
        let (name, password) = match user.split_once(':') {
            Some((name, password)) => (name, Some(decoded(password, Part::User)?)),
            None => (user, None),
        };
        self.user = Some((decoded(name, Part::User)?, password));
        Ok(())
    }

    /// The size of the parts that are compared.
    pub(crate) fn bytes(&self) -> usize {
        self.opaque.len()
            + self.host.len()
            + self.path.len()
            + self.query.len()
            + self.fragment.len()
    }

    /// The host without port and brackets, and the port.
    pub(crate) fn host_and_port(&self) -> (&str, &str) {
        let colon = self.host.rfind(':');
        let port = colon.filter(|at| is_port(&self.host[*at..]));
        let (host, port) = self.host.split_at(port.unwrap_or(self.host.len()));
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        (bare.unwrap_or(host), port.strip_prefix(':').unwrap_or(port))
    }

    /// The keys and values of the query, decoded, in the order of the query. Malformed ones are left out.
    pub(crate) fn query(&self) -> impl Iterator<Item = (String, String)> {
        let pairs = self.query.split('&');
        let pairs = pairs.filter(|pair| !pair.is_empty() && !pair.contains(';'));
        pairs.filter_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let text = |text: &str| {
                let bytes = decoded(text, Part::Query).ok()?;
                Some(String::from_utf8_lossy(&bytes).into_owned())
            };
            Some((text(key)?, text(value)?))
        })
    }
}

/// The scheme and what follows it. A text without a scheme has an empty one.
fn scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn read_host(text: &str) -> Result<String, String> {
    let invalid_port = |port: &str| format!("invalid port {:?} after host", shown(port));
    let bytes = if let Some(inner) = text.strip_prefix('[') {
        let (address, port) = inner.rsplit_once(']').ok_or("missing ']' in host")?;
        if !is_port(port) {
            return Err(invalid_port(port));
        }
        let (address, zone) = match address.split_once("%25") {
            Some((address, zone)) => (address, Some(decoded(zone, Part::Zone)?)),
            None => (address, None),
        };
        let address = decoded(address, Part::Host)?;
        let is_address =
            std::str::from_utf8(&address).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok());
        if !is_address || zone.as_ref().is_some_and(Vec::is_empty) {
            return Err("invalid host".to_owned());
        }
        let zone = zone.map(|zone| [&b"%"[..], &zone].concat());
        [
            b"[",
            &*address,
            &zone.unwrap_or_default(),
            b"]",
            port.as_bytes(),
        ]
        .concat()
    } else {
        if let Some(at) = text.rfind(':')
            && !is_port(&text[at..])
        {
            return Err(invalid_port(&text[at..]));
        }
        decoded(text, Part::Host)?
    };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Nothing, or a colon and digits.
fn is_port(text: &str) -> bool {
    let digits = text.strip_prefix(':');
    text.is_empty() || digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Undoes percent-encodings.
fn decoded(text: &str, part: Part) -> Result<Vec<u8>, String> {
    let in_host = matches!(part, Part::Host | Part::Zone);
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'%' {
            if in_host && byte.is_ascii() && !stays_in_host(*byte) {
                let byte = char::from(*byte).to_string();
                return Err(format!("invalid character {byte:?} in host name"));
            }
            bytes.push(if *byte == b'+' && part == Part::Query {
                b' '
            } else {
                *byte
            });
            continue;
        }
        let digits = after
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let is_hexadecimal = |digits: &&str| digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let code = digits
            .filter(is_hexadecimal)
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let allowed = code.filter(|code| match part {
            // A host is encoded only where it is not ASCII.
            Part::Host => !code.is_ascii() || *code == b'%',
            Part::Zone => *code == b'%' || *code == b' ' || stays_in_host(*code),
            _ => true,
        });
        let Some(code) = allowed else {
            let end = after.len().min(2);
            let escape = String::from_utf8_lossy(&after[..end]);
            return Err(format!("invalid URL escape {:?}", format!("%{escape}")));
        };
        bytes.push(code);
        rest = &after[2..];
    }
    Ok(bytes)
}

const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~')
}

fn stays_in_host(byte: u8) -> bool {
    is_unreserved(byte) || b"!$&'()*+,;=:[]<>\"".contains(&byte)
}

fn stays_in_path(byte: u8) -> bool {
    is_unreserved(byte) || b"!$&'()*+,;=:@/[]%".contains(&byte)
}

/// The percent-encoding of a path.
fn encoded(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path {
        if is_unreserved(*byte) || b"$&+,/:;=@".contains(byte) {
            text.push(char::from(*byte));
        } else {
            text.push('%');
            for digit in [byte >> 4, byte & 15] {
                text.extend(
                    char::from_digit(digit.into(), 16).map(|digit| digit.to_ascii_uppercase()),
                );
            }
        }
    }
    text
}

/// The beginning of a long text.
fn shown(text: &str) -> &str {
    text.get(..text.floor_char_boundary(64)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_uris_and_paths_are_urls() {
        for (text, why) in [
            (
                "https://user:pass@example.com:80/path?query=val#fragment",
                "",
            ),
            ("/absolute-path", ""),
            ("*", ""),
            ("mailto:a@example.com", ""),
            ("https:://kubernetes.io/", ""),
            ("https://[::1]:80/", ""),
            ("https://[fe80::1%25eth0]/", ""),
            ("https://ex%C3%A4mple.com", ""),
            ("", "empty url"),
            ("../relative-path", "invalid URI for request"),
            ("a b", "invalid URI for request"),
            (":80", "missing protocol scheme"),
            ("https://a:b:c/", "invalid port \":c\" after host"),
            ("https://[::1", "missing ']' in host"),
            ("https://[::1]a/", "invalid port \"a\" after host"),
            ("https://[1.2.3.4]/", "invalid host"),
            ("https://[::1%25]/", "invalid host"),
            ("https://a b/", "invalid character \" \" in host name"),
            ("https://a%41/", "invalid URL escape \"%41\""),
            ("https://a\"@b/", "net/url: invalid userinfo"),
            ("/a%2", "invalid URL escape \"%2\""),
            ("/a%zz", "invalid URL escape \"%zz\""),
            ("/a\nb", "net/url: invalid control character in URL"),
        ] {
            let found = Url::read(text).err().unwrap_or_default();
            assert_eq!(
                found.split_once(": ").map_or("", |(_, why)| why),
                why,
                "{text}"
            );
        }
    }

    #[test]
    fn each_part_of_a_url_is_found() {
        let parts = |text: &str| {
            let url = Url::read(text).unwrap();
            let (host, port) = url.host_and_port();
            let query = url.query().map(|(key, value)| format!("{key}={value}"));
            let query: Vec<String> = query.collect();
            [
                &url.scheme,
                &url.host,
                host,
                port,
                &url.path,
                &query.join("|"),
            ]
            .join(" ")
        };
        for (text, expected) in [
            (
                "HTTPS://example.com:80/a b/?x=1&x=a+b%21&;y&z#f",
                "https example.com:80 example.com 80 /a%20b/ x=1|x=a b!|z=",
            ),
            ("https://[::1]:8/%2F", "https [::1]:8 ::1 8 /%2F "),
            ("https://[::1]", "https [::1] ::1   "),
            ("//host/path", " host host  /path "),
            ("///path", "    ///path "),
            ("/path", "    /path "),
            ("mailto:a@b", "mailto     "),
            ("https://e.com:/", "https e.com: e.com  / "),
        ] {
            assert_eq!(parts(text), expected, "{text}");
        }
        let same = |one: &str, other: &str| Url::read(one) == Url::read(other);
        assert!(same("http://%61@x/", "HTTP://a@x/") && !same("http://x/", "http://x/?"));
        assert!(!same("http://x/#a", "http://x/#b"));
    }
}
