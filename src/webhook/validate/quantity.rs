//! Kubernetes quantities, as far as they must be told from other texts.

/// Whether a text is a quantity above 0, such as `64Gi`, `1.5G` or `2e9`. Source: the grammar of
/// `k8s.io/apimachinery/pkg/api/resource`.
pub(super) fn is_positive(text: &str) -> bool {
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    text.len() <= LENGTH_MAX
        && !(whole.is_empty() && fraction.is_empty())
        && digits(whole)
        && digits(fraction)
        && number.bytes().any(|byte| (b'1'..=b'9').contains(&byte))
        && is_suffix(suffix)
}

/// The longest text of a quantity that anybody needs.
const LENGTH_MAX: usize = 64;

fn is_suffix(suffix: &str) -> bool {
    const SUFFIXES: [&str; 16] =
        ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    if SUFFIXES.contains(&suffix) {
        return true;
    }
    let Some(exponent) = suffix.strip_prefix(['e', 'E']) else { return false };
    exponent.parse::<i8>().is_ok_and(|exponent| (-18..=18).contains(&exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_told_from_other_texts() {
        for text in ["1", "64Gi", "1.5G", "2e9", "2E9", "100m", "+1Ki", ".5Gi", "1.", "1e-3", "9E"]
        {
            assert!(is_positive(text), "{text}");
        }
        for text in [
            "", "0", "0Gi", "-1Gi", "64 Gi", "64GB", "64gi", "Gi", ".", "1.2.3", "1e", "1e99",
            "NaN", "inf", "1K", "٣", "0x1",
        ] {
            assert!(!is_positive(text), "{text}");
        }
        assert!(!is_positive(&"1".repeat(65)));
    }
}
