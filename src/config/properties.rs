//! Reads a Kafka server.properties file: Java's properties format, with the line of each entry.

use java_properties::{LineContent, PropertiesIter};

/// One entry of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) property: String,
    pub(super) value: String,
    /// Where the entry begins, counted from 1.
    pub(super) line: usize,
}

/// Reads the text of a file; the error has the line where known.
pub(super) fn parse(text: &[u8]) -> Result<Vec<Entry>, (Option<usize>, String)> {
    let text = blank_comments(text);
    let mut entries = Vec::new();
    for line in PropertiesIter::new(text.as_slice()) {
        let line = line.map_err(|error| (error.line_number(), error.to_string()))?;
        let number = line.line_number();
        if let LineContent::KVPair(property, value) = line.consume_content() {
            entries.push(Entry { property, value: value.trim().to_owned(), line: number });
        }
    }
    Ok(entries)
}

/// Empties comment lines and keeps all others in their place: the parser looks for escapes in comments too, and would
/// refuse `# C:\users`, which Java reads.
fn blank_comments(text: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(text.len());
    let mut continues = false;
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let content = line.trim_ascii();
        if !continues && matches!(content.first(), Some(b'#' | b'!')) {
            kept.push(b'\n');
            continue;
        }
        kept.extend_from_slice(line);
        let end = line.strip_suffix(b"\n").unwrap_or(line);
        let end = end.strip_suffix(b"\r").unwrap_or(end);
        continues = end.iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 1;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(property: &str, value: &str, line: usize) -> Entry {
        Entry { property: property.into(), value: value.into(), line }
    }

    #[test]
    fn entries_have_their_line() {
        let text = b"# a comment\n\nnode.id=7\r\n! another\n  num.partitions : 3  \nlisteners\n";
        let expected = vec![entry("node.id", "7", 3), entry("num.partitions", "3", 5), entry("listeners", "", 6)];
        assert_eq!(parse(text), Ok(expected));
    }

    #[test]
    fn a_value_over_several_lines_has_the_first_ones_number() {
        let text = b"a=1\nlisteners=A://h:1,\\\n    # not a comment\\\n  B://h:2\nb=2";
        let expected =
            vec![entry("a", "1", 1), entry("listeners", "A://h:1,# not a commentB://h:2", 2), entry("b", "2", 5)];
        assert_eq!(parse(text), Ok(expected));
    }

    #[test]
    fn comments_may_hold_anything() {
        assert_eq!(parse(b"# C:\\users\\me \\u12\na=1"), Ok(vec![entry("a", "1", 2)]));
        assert_eq!(parse(b"# ends with a backslash \\\na=1"), Ok(vec![entry("a", "1", 2)]));
    }

    #[test]
    fn a_bad_escape_names_its_line() {
        let (line, message) = parse(b"a=1\nb=\\u12").expect_err("an escape needs four digits");
        assert_eq!(line, Some(2));
        assert!(message.contains("not enough digits"), "{message}");
    }
}
