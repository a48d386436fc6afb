//! The commands that the documents show are commands.

use std::path::{Path, PathBuf};

use clap::Parser;

use super::Cli;

/// The pages in a folder and in its folders.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// The arguments of the commands in a line of a code block: what follows the name of the program, up to what is for
/// the shell.
fn commands(line: &str) -> impl Iterator<Item = Vec<&str>> {
    let line = line.strip_prefix("$ ").unwrap_or(line);
    line.split(" && ").filter_map(|command| {
        let begin = ["kubectl aw ", "appwrapper "];
        let arguments = begin.iter().find_map(|begin| command.strip_prefix(begin))?;
        let words = arguments.split_whitespace();
        Some(words.take_while(|word| !word.starts_with(['|', '>', '#', '<', '&'])).collect())
    })
}

#[test]
fn the_commands_of_the_documents_parse() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = vec![root.join("README.md")];
    pages(&root.join("docs"), &mut all);
    let mut count = 0;
    for page in all {
        let text = std::fs::read_to_string(&page).expect("a page");
        let blocks = text.split("\n```").skip(1).step_by(2);
        let in_shell = |block: &&str| ["sh\n", "console\n"].iter().any(|it| block.starts_with(it));
        for arguments in blocks.filter(in_shell).flat_map(str::lines).flat_map(commands) {
            // NAME stands for a name
            let words = arguments
                .iter()
                .map(|word| word.replace("NAMESPACE", "ns").replace("NAME", "name"));
            let parsed = Cli::try_parse_from(std::iter::once("appwrapper".to_owned()).chain(words));
            let said = parsed.err().map(|error| error.to_string());
            assert_eq!(said, None, "{}: {arguments:?}", page.display());
            count += 1;
        }
    }
    assert!(count > 30, "{count} commands were found");
}
