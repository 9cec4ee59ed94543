//! Makes certificates.

use super::{Pair, PrivateKey, TlsError, wrong};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};

/// Clocks of a cluster differ: a certificate is valid from this long before it is made.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_hours(24);

/// A certificate that was made.
#[derive(Debug)]
pub struct Made {
    /// The certificate and its key.
    pub pair: Pair,
    /// The authority's certificate, PEM. The authority's key is not kept: the next certificate has another.
    pub authority: String,
    /// The end of its time.
    pub until: Timestamp,
}

/// Makes an authority of this name, and a certificate of it for `names`, which are DNS names or addresses.
pub fn make(
    authority: &str,
    names: &[String],
    valid: SignedDuration,
    now: Timestamp,
) -> Result<Made, TlsError> {
    let until = now.saturating_add(valid).map_err(wrong)?;
    let since = now.saturating_sub(CLOCK_SKEW).map_err(wrong)?;
    let mut of_authority = CertificateParams::default();
    let common = DnType::CommonName;
    of_authority.distinguished_name.push(common, authority);
    of_authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let mut leaf = CertificateParams::new(names).map_err(wrong)?;
    for params in [&mut of_authority, &mut leaf] {
        let (year, month, day) = date(since);
        params.not_before = date_time_ymd(year, month, day);
        let (year, month, day) = date(until);
        params.not_after = date_time_ymd(year, month, day);
    }
    let key = KeyPair::generate().map_err(wrong)?;
    let signed = of_authority.self_signed(&key).map_err(wrong)?;
    let issuer = Issuer::new(of_authority, key);
    let key = KeyPair::generate().map_err(wrong)?;
    let certificate = leaf.signed_by(&key, &issuer).map_err(wrong)?;
    let pair = Pair {
        certificate: text("CERTIFICATE", certificate.der()),
        key: PrivateKey::new(text("PRIVATE KEY", &key.serialize_der())),
    };
    Ok(Made {
        pair,
        authority: text("CERTIFICATE", signed.der()),
        until,
    })
}

/// Year, month and day.
fn date(time: Timestamp) -> (i32, u8, u8) {
    let date = time.to_zoned(TimeZone::UTC).date();
    let unsigned = |part: i8| u8::try_from(part).unwrap_or(1);
    (
        i32::from(date.year()),
        unsigned(date.month()),
        unsigned(date.day()),
    )
}

fn text(label: &str, der: &[u8]) -> String {
    let lines = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&pem::Pem::new(label, der), lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_certificate_has_an_authority_of_its_own_and_an_end() {
        let now: Timestamp = "2026-11-24T00:00:00Z".parse().unwrap();
        let names = ["evictd-batch.evictd.svc".to_owned()];
        let valid = SignedDuration::from_hours(24 * 90);
        let make = || make("test", &names, valid, now).unwrap();
        let (one, other) = (make(), make());
        assert_eq!(one.until, "2027-02-22T00:00:00Z".parse().unwrap());
        assert_ne!(one.authority, other.authority);
    }
}
