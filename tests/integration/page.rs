//! Pages of the documentation whose commands are run as they stand there, one after another.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use controlplane::Tool;
use serde_json::{Value, json};

use crate::harness::Case;
use crate::installed::INSTALLED;

/// A command of the page, which follows the comment `<!-- command: NAME -->`, and what it prints there.
#[derive(Debug, Default)]
pub struct Step {
    pub name: String,
    pub command: String,
    pub output: String,
}

pub fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The commands of a page. Of the blocks after a marker, the first in `sh` is the command and the first
/// in `text` its output.
pub fn steps(page: &str) -> Vec<Step> {
    let parts = page.split("<!-- command: ").skip(1);
    parts
        .map(|part| {
            let (name, rest) = part.split_once(" -->").expect("the comment ends");
            let block = |language: &str| {
                let (_, inside) = rest.split_once(&format!("```{language}\n"))?;
                Some(inside.split_once("\n```").expect("the block ends").0.to_owned())
            };
            Step {
                name: name.to_owned(),
                command: block("sh").unwrap_or_else(|| panic!("{name} has no command")),
                output: block("text").unwrap_or_default(),
            }
        })
        .collect()
}

/// Whether a line is the one of the page: word by word, and anything in the place of `<what differs>`.
fn is_like(shown: &str, line: &str) -> bool {
    let (shown, line): (Vec<&str>, Vec<&str>) =
        (shown.split_whitespace().collect(), line.split_whitespace().collect());
    let same = |(shown, word): (&&str, &&str)| {
        let parts = shown.split_once('<').and_then(|(begin, rest)| {
            let (_, end) = rest.split_once('>')?;
            Some((begin, end))
        });
        parts.map_or(shown == word, |(begin, end)| {
            let rest = word.strip_prefix(begin).and_then(|rest| rest.strip_suffix(end));
            rest.is_some_and(|differs| !differs.is_empty())
        })
    };
    shown.len() == line.len() && shown.iter().zip(&line).all(same)
}

/// Somebody who types what the page says, in the namespace of a test.
pub struct Reader {
    pub folder: PathBuf,
    pub namespace: String,
}

impl Reader {
    pub fn new(case: &Case) -> Self {
        let folder = INSTALLED.plane.state_dir().join("readers").join(&case.namespace);
        fs::create_dir_all(&folder).expect("a folder");
        let kubectl = controlplane::build::tool(Tool::Kubectl).expect("kubectl is built");
        symlink(Path::new(env!("CARGO_MANIFEST_DIR")).join("samples"), folder.join("samples"))
            .expect("a link");
        symlink(kubectl, folder.join("kubectl")).expect("a link");
        symlink(env!("CARGO_BIN_EXE_appwrapper"), folder.join("kubectl-aw")).expect("a link");
        let text = fs::read_to_string(INSTALLED.plane.kubeconfig()).expect("it can be read");
        let mut config: Value = serde_saphyr::from_str(&text).expect("YAML");
        config["contexts"][0]["context"]["namespace"] = json!(case.namespace);
        fs::write(folder.join("kubeconfig"), config.to_string()).expect("it is written");
        Self { folder, namespace: case.namespace.clone() }
    }

    /// A shell that runs a command where the page's reader would.
    pub fn shell(&self, command: &str) -> Command {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(command).current_dir(&self.folder);
        let folder = self.folder.display();
        shell.env("PATH", format!("{folder}:/usr/bin:/bin")).env("HOME", &self.folder);
        shell.env("KUBECONFIG", self.folder.join("kubeconfig"));
        shell
    }

    /// Runs a command as it stands in the page; what it printed must be what the page shows.
    pub fn follow(&self, step: &Step) {
        // as a terminal shows it
        let command = format!("exec 2>&1\n{}", step.command);
        let output = self.shell(&command).output().expect("a shell");
        let Output { status, stdout, stderr } = output;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        // the page is in the namespace `default`
        let seen = text(&stdout).replace(&self.namespace, "default");
        let all = format!("{}\n{seen}{}", step.command, text(&stderr));
        assert!(status.success(), "{status}: {all}");
        let (shown, lines): (Vec<&str>, Vec<&str>) =
            (step.output.lines().collect(), seen.trim_end().lines().collect());
        assert!(!shown.is_empty(), "the page says what is seen: {all}");
        assert_eq!(shown.len(), lines.len(), "the page shows:\n{}\n\n{all}", step.output);
        for (shown, line) in shown.iter().zip(lines) {
            assert!(is_like(shown, line), "the page shows:\n{shown}\n\n{all}");
        }
    }
}

#[test]
fn only_what_is_marked_in_the_page_may_differ() {
    assert!(is_like("a   <5s> ago", "a 17s ago"));
    assert!(is_like("(<5s> ago), on <node-1>.", "(17s ago), on kind-control-plane."));
    for line in ["a ago", "b 5s ago", "a 5s", "a 5s ago b", "a 5s later", ""] {
        assert!(!is_like("a <5s> ago", line), "{line}");
    }
    assert!(!is_like("(<5s>)", "()"));
    assert!(is_like("a > b", "a > b") && !is_like("a > b", "a > c"));
}
