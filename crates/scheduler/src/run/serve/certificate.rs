//! Who a client certificate is for. Only certificates whose chain was verified are read.

/// The subject of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subject {
    /// The common name, which is the user's name.
    pub(super) name: String,
    /// The organizations, which are the user's groups.
    pub(super) groups: Vec<String>,
}

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];

/// `None` if there is no common name.
pub(super) fn subject(der: &[u8]) -> Option<Subject> {
    let (_, certificate, _) = next(der)?;
    let (_, body, _) = next(certificate)?;
    let (tag, _, after_version) = next(body)?;
    let mut rest = if tag == VERSION { after_version } else { body };
    // Serial number, signature algorithm, issuer, validity.
    for _ in 0..4 {
        rest = next(rest)?.2;
    }
    let (_, mut parts, _) = next(rest)?;
    let (mut name, mut groups) = (None, Vec::new());
    while let Some((_, mut set, after)) = next(parts) {
        parts = after;
        while let Some((SEQUENCE, pair, after)) = next(set) {
            set = after;
            let (_, kind, value) = next(pair)?;
            let value = String::from_utf8(next(value)?.1.to_vec()).ok()?;
            match kind {
                COMMON_NAME => name = Some(value),
                ORGANIZATION => groups.push(value),
                _ => {}
            }
        }
    }
    let name = name?;
    Some(Subject { name, groups })
}

/// Tag and content of the first element, and what comes after it.
fn next(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
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
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair};

    #[test]
    fn the_name_and_the_groups_are_read_and_rubbish_is_nobodys() {
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
