//! A headless Chromium, driven through pipes by the protocol of its developer tools.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

/// How many frames anything on a page may take: there are 60 of them in a second.
const FRAMES_MAX: usize = 3_600;
/// The names of the program.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A browser with one page.
pub struct Browser {
    child: Child,
    folder: PathBuf,
    to: File,
    from: BufReader<File>,
    id: u64,
    session: Option<String>,
    /// Errors of the page: exceptions, and what its policy blocked.
    pub errors: Vec<Value>,
}

/// The program; none where it is not installed, which is said.
pub fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let all = NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    let found = all.into_iter().find(|file| file.is_file());
    if found.is_none() {
        eprintln!("skipped: needs Chromium, and none of {NAMES:?} is installed");
    }
    found
}

impl Browser {
    /// Starts it with its files in a folder, which goes with it.
    pub fn start(program: &Path, folder: PathBuf) -> Self {
        std::fs::create_dir_all(&folder).expect("a folder");
        let pipe = |name: &str| {
            let pipe = folder.join(name);
            drop(std::fs::remove_file(&pipe));
            assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
            pipe
        };
        let (to, from) = (pipe("to"), pipe("from"));
        let script = "exec \"$0\" --headless --no-sandbox --disable-gpu --remote-debugging-pipe \
                      --user-data-dir=\"$1/profile\" about:blank 3<\"$1/to\" 4>\"$1/from\"";
        let child = Command::new("sh")
            .args(["-c", script])
            .args([program, &folder])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh runs");
        let to = OpenOptions::new().write(true).open(to).expect("a pipe");
        let from = BufReader::new(File::open(from).expect("a pipe"));
        let (id, session, errors) = (0, None, vec![]);
        let mut browser = Self { child, folder, to, from, id, session, errors };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method and waits for its result.
    fn call(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        let mut message = json!({"id": self.id, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.to.write_all(format!("{message}\0").as_bytes()).expect("the browser listens");
        loop {
            let mut bytes = vec![];
            self.from.read_until(0, &mut bytes).expect("the browser answers");
            assert_eq!(bytes.pop(), Some(0), "the browser has ended");
            let mut answer: Value = serde_json::from_slice(&bytes).expect("JSON");
            if answer["id"] == self.id {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].take();
            }
            let is_error = answer["method"] == "Runtime.exceptionThrown"
                || answer["params"]["entry"]["level"] == "error";
            if is_error {
                self.errors.push(answer["params"].take());
            }
        }
    }

    /// Opens a page in a window of this size.
    pub fn open(&mut self, url: &str, width: u32, height: u32) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
        self.call("Page.navigate", json!({"url": url}));
    }

    /// Switches to dark colours, or back.
    pub fn set_dark(&mut self, dark: bool) {
        let value = if dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": value}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// The value of an expression on the page; a promise is awaited.
    pub fn eval(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let mut result = self.call("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].take()
    }

    /// Waits until an expression is true.
    pub fn until(&mut self, expression: &str) {
        // each frame of the page is asked
        let frame = format!("new Promise(done => requestAnimationFrame(() => done({expression})))");
        let is_true = (0..FRAMES_MAX).any(|_| self.eval(&frame) == true);
        assert!(is_true, "never: {expression}\n{:?}", self.errors);
    }

    /// Presses a key.
    pub fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let code = match key {
                "ArrowDown" => 40,
                "End" => 35,
                "Enter" => 13,
                _ => 0,
            };
            let event = json!({"type": kind, "key": key, "windowsVirtualKeyCode": code});
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Keeps a picture of the page.
    pub fn picture(&mut self, name: &str) {
        let picture = self.call("Page.captureScreenshot", json!({"format": "png"}));
        keep(&format!("{name}.png.base64"), picture["data"].as_str().expect("a text"));
    }
}

/// Writes a file to the folder of `SCREENSHOTS`, where that is set.
pub fn keep(name: &str, text: &str) {
    if let Some(folder) = std::env::var_os("SCREENSHOTS") {
        std::fs::write(PathBuf::from(folder).join(name), text).expect("it is written");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        drop(std::fs::remove_dir_all(&self.folder));
    }
}
