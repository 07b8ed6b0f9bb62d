//! Text wrapped for a terminal.

/// Wraps `text` to the width of a terminal.
pub fn wrapped(text: &str) -> Vec<String> {
    const COLUMNS: usize = 96;
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("begins with one");
        if !line.is_empty() && line.len() + 1 + word.len() > COLUMNS {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}
