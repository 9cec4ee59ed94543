//! Ed25519 key pairs for the plugin `ssh`, in the format of OpenSSH. Every version since 2014 reads it under any file name.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use evictd_batch_jobs::job::KeyPair;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair as _};

#[derive(Debug, thiserror::Error)]
#[error("the system has no random numbers for an ssh key pair")]
pub(super) struct NoRandom;

const ALGORITHM: &[u8] = b"ssh-ed25519";
/// Characters of a line of the private key.
const LINE: usize = 70;

/// Generates a key pair. The public key ends with `comment`.
pub(super) fn generate(comment: &str) -> Result<KeyPair, NoRandom> {
    let random = SystemRandom::new();
    let (mut seed, mut check) = ([0; 32], [0; 4]);
    random
        .fill(&mut seed)
        .and_then(|()| random.fill(&mut check))
        .map_err(|_| NoRandom)?;
    let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| NoRandom)?;
    let public = pair.public_key().as_ref();
    let mut blob = Vec::new();
    push(&mut blob, ALGORITHM);
    push(&mut blob, public);
    Ok(KeyPair {
        private: private_key(&blob, &seed, public, check, comment),
        public: format!("ssh-ed25519 {} {comment}\n", BASE64_STANDARD.encode(&blob)),
    })
}

/// The file of the private key (OpenSSH's PROTOCOL.key).
fn private_key(blob: &[u8], seed: &[u8], public: &[u8], check: [u8; 4], comment: &str) -> String {
    // OpenSSH compares both copies to see whether the passphrase is right.
    let mut secret = [check, check].concat();
    push(&mut secret, ALGORITHM);
    push(&mut secret, public);
    push(&mut secret, &[seed, public].concat());
    push(&mut secret, comment.as_bytes());
    // The length is padded to the block size of the cipher, which is 8 for none.
    let mut padding = 1;
    while secret.len() % 8 != 0 {
        secret.push(padding);
        padding += 1;
    }
    let mut file = b"openssh-key-v1\0".to_vec();
    // No cipher, no key derivation.
    push(&mut file, b"none");
    push(&mut file, b"none");
    push(&mut file, b"");
    file.extend(1_u32.to_be_bytes());
    push(&mut file, blob);
    push(&mut file, &secret);
    let text = BASE64_STANDARD.encode(&file);
    let mut lines = vec!["-----BEGIN OPENSSH PRIVATE KEY-----"];
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(LINE));
        lines.push(line);
        rest = after;
    }
    lines.push("-----END OPENSSH PRIVATE KEY-----\n");
    lines.join("\n")
}

/// Appends bytes with their length.
fn push(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openssh_reads_the_private_key_and_finds_the_public_one_in_it() {
        let pair = generate("ml/train").unwrap();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, pair.private.as_bytes()).unwrap();
        let mut command = std::process::Command::new("ssh-keygen");
        let output = command.arg("-y").arg("-f").arg(file.path()).output();
        match output {
            Ok(output) => assert_eq!(String::from_utf8(output.stdout).unwrap(), pair.public),
            Err(why) => evictd_testkit::testing::left_out("openssh_reads_the_private_key", why),
        }
    }

    #[test]
    fn key_pairs_differ_and_have_the_format_of_openssh() {
        let [one, two] = [(); 2].map(|()| generate("ml/train").unwrap());
        assert_ne!(one, two);
        assert!(
            one.public
                .starts_with("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI")
        );
        assert!(
            one.private
                .starts_with("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA")
        );
        assert!(one.private.lines().all(|line| line.len() <= LINE));
    }
}
