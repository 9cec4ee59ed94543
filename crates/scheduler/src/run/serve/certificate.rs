//! The user of a client certificate. Its chain was verified before.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subject {
    /// The user's name: the common name.
    pub(super) name: String,
    /// The user's groups: the organizations.
    pub(super) groups: Vec<String>,
}

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];

/// `None` if there is no common name.
pub(super) fn subject(der: &[u8]) -> Option<Subject> {
    let certificate = next(der)?;
    let body = next(certificate.content)?.content;
    let version = next(body)?;
    // The version is optional.
    let mut rest = if version.tag == VERSION {
        version.rest
    } else {
        body
    };
    // Serial number, signature algorithm, issuer, validity.
    for _ in 0..4 {
        rest = next(rest)?.rest;
    }
    let mut parts = next(rest)?.content;
    let (mut name, mut groups) = (None, Vec::new());
    while let Some(part) = next(parts) {
        parts = part.rest;
        let mut set = part.content;
        while let Some(pair) = next(set).filter(|pair| pair.tag == SEQUENCE) {
            set = pair.rest;
            let kind = next(pair.content)?;
            let value = next(kind.rest)?.content;
            let value = String::from_utf8(value.to_vec()).ok()?;
            match kind.content {
                COMMON_NAME => name = Some(value),
                ORGANIZATION => groups.push(value),
                _ => {}
            }
        }
    }
    let name = name?;
    Some(Subject { name, groups })
}

/// An element of DER.
struct Element<'a> {
    tag: u8,
    content: &'a [u8],
    /// The bytes after the element.
    rest: &'a [u8],
}

/// The first element.
fn next(der: &[u8]) -> Option<Element<'_>> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        let value = bytes.iter().try_fold(0_usize, |value, byte| {
            Some(value.checked_mul(256)? + usize::from(*byte))
        });
        (value?, rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some(Element { tag, content, rest })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair};

    #[test]
    fn name_and_groups_of_a_certificate_are_read_and_damaged_ones_have_no_user() {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::OrganizationName, "system:masters");
        params.distinguished_name.push(DnType::CountryName, "CH");
        params.distinguished_name.push(DnType::CommonName, "ann");
        let key = KeyPair::generate().unwrap();
        let der = params.self_signed(&key).unwrap().der().to_vec();
        let expected = Subject {
            name: "ann".to_owned(),
            groups: vec!["system:masters".to_owned()],
        };
        assert_eq!(subject(&der), Some(expected));
        for end in 0..der.len() {
            assert_eq!(subject(&der[..end]), None);
        }
        for place in 0..der.len() {
            let mut wrong = der.clone();
            wrong[place] ^= 0xff;
            let _ = subject(&wrong);
        }
    }
}
