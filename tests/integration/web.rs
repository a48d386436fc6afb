//! `appwrapper web`, `timeline` and `export`, as programs that are run, and the page in a browser.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::aw::User;
use crate::browser::{self, Browser};
use crate::harness::{plane, pod, test, tuned, wrapper};

const PROGRAM: &str = env!("CARGO_BIN_EXE_appwrapper");

/// A command that serves the page.
pub struct Served {
    child: Child,
    /// Its URL, with the token.
    url: String,
}

impl Served {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let mut url = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("it was piped"));
        out.read_line(&mut url).expect("a line");
        Self { child, url: url.trim_end().to_owned() }
    }

    /// Host and path of the URL.
    fn parts(&self) -> (&str, &str) {
        let rest = self.url.strip_prefix("http://").expect("a URL");
        rest.split_at(rest.find('/').expect("a path"))
    }

    /// A request that says to whom it goes; the connection, after the request.
    fn ask(&self, method: &str, host: &str, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.parts().0).expect("it listens");
        let request =
            format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it is sent");
        stream
    }

    /// The answer to a request.
    fn answer(&self, method: &str, host: &str, path: &str) -> String {
        let mut answer = String::new();
        self.ask(method, host, path).read_to_string(&mut answer).expect("an answer");
        answer
    }

    /// Data of the page.
    pub fn json(&self, below: &str) -> Value {
        let (host, path) = self.parts();
        let answer = self.answer("GET", host, &format!("{path}{below}"));
        let body = answer.split_once("\r\n\r\n").expect("a body").1;
        // a body in chunks has their lengths on lines of their own
        let json = body.lines().find(|line| line.starts_with(['{', '[']));
        serde_json::from_str(json.unwrap_or(body)).unwrap_or_else(|_| panic!("{below}: {answer}"))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn demo() -> Served {
    Served::start(Command::new(PROGRAM).args(["demo", "--web"]))
}

#[test]
fn the_page_admits_only_its_url() {
    let served = demo();
    let (host, path) = served.parts();
    let status = |method: &str, host: &str, path: &str| {
        let answer = served.answer(method, host, path);
        answer.split(' ').nth(1).expect("a status").to_owned()
    };
    assert_eq!(status("GET", host, path), "200");
    assert_eq!(status("GET", "rebound.example", path), "403");
    assert_eq!(status("GET", host, "/"), "403");
    assert_eq!(status("GET", host, "/0123456789abcdef0123456789abcdef/rows"), "403");
    assert_eq!(status("POST", host, &format!("{path}rows")), "405");
    let answer = served.answer("GET", host, path);
    assert!(answer.contains("content-security-policy: default-src 'none'"), "{answer}");
    assert!(!answer.contains("access-control-allow"), "{answer}");
}

#[test]
fn a_demo_is_told_at_every_moment() {
    let served = demo();
    let info = served.json("info");
    let moments: Vec<i64> = serde_json::from_value(info["moments"].clone()).expect("moments");
    assert!(moments.is_sorted() && moments.len() > 20, "{moments:?}");
    let (begin, end) = (moments[0], moments[moments.len() - 1]);
    assert!(info["lines"].as_array().is_some_and(|lines| lines.len() > 20), "{info}");
    let story = |at: i64| served.json(&format!("story?namespace=default&name=train&at={at}"));
    let last = story(end);
    assert_eq!(last["description"]["phase"], "Succeeded", "{last}");
    assert_eq!(last["attempts"]["rows"][0][5], "Failed", "{last}");
    let stages = |story: &Value| {
        let shapes = story["drawing"]["shapes"].as_array().expect("shapes");
        shapes
            .iter()
            .filter_map(|shape| shape["class"].as_str())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    for stage in ["starting", "running", "failing", "teardown", "pausing"] {
        assert!(stages(&last).iter().any(|class| class == stage), "{stage}: {last:#}");
    }
    // the pods of the first attempt are known, too, and where they ran
    let titles = last["drawing"].to_string();
    assert!(titles.contains("train-worker-0: running") && titles.contains("on node-"), "{titles}");
    let phases: Vec<Value> = moments
        .iter()
        .step_by(5)
        .map(|at| served.json(&format!("rows?at={at}")))
        .filter_map(|rows| rows.as_array()?.iter().find(|row| row["name"] == "train").cloned())
        .map(|row| row["phase"].clone())
        .collect();
    for phase in ["Running", "Resetting", "Succeeded"] {
        assert!(phases.contains(&json!(phase)), "{phase}: {phases:?}");
    }
    let running = story(begin + 15);
    assert_eq!(running["description"]["queue"]["message"], "admitted", "{running}");
    let queues = served.json(&format!("queues?at={}", begin + 15));
    assert_eq!(queues["queues"][0]["resources"][0]["quota"], "2", "{queues}");
}

#[test]
fn a_seed_is_told_at_its_end() {
    let served = Served::start(Command::new(PROGRAM).args(["simulate", "--seed", "7", "--web"]));
    let info = served.json("info");
    assert_eq!(info["title"], "seed 7; every invariant holds");
    let rows = served.json("rows");
    let moments = info["moments"].as_array().expect("moments");
    assert!(moments.len() > 100 && rows.is_array(), "{} moments, {rows}", moments.len());
}

#[test]
fn an_export_holds_what_is_needed_and_the_page_is_live() {
    test("an_export_holds_what_is_needed_and_the_page_is_live", async |case| {
        let user = User::admin(&case);
        let life = [("run-for", "1s"), ("exit-code", "3"), ("message", "<b>\x1b[2Jbad")];
        let settings = tuned(&[("retryLimit", "0"), ("failureGracePeriodDuration", "0s")]);
        case.create(wrapper("bad", settings, vec![pod("bad-p", &life)])).await;
        user.run(&["wait", "bad", "--for=failed", "--timeout=2m"]).with(0, &[]);
        case.condition("bad", "QuotaReserved", "False").await;
        case.warning("bad", "FoundFailedPods").await;

        let export = user.run(&["export", "bad"]).with(0, &["\"kind\": \"List\""]);
        let file = user.file("bad.json");
        std::fs::write(&file, &export.out).expect("it is written");
        let file = file.to_str().expect("a text");
        let explained = user.cluster_free(&["explain", "-f", file]);
        let retry = format!("appwrapper retry bad -n {})", case.namespace);
        let next = format!("/bad: Failed (final; to recreate it from its own spec: {retry}");
        explained.with(0, &[&next]);
        let said = ["bad.svg written", "bad.html written"];
        let pictures = ["--svg", "bad.svg", "--html", "bad.html"];
        user.cluster_free(&[&["timeline", "-f", file], &pictures[..]].concat())
            .with(0, &said)
            .with(0, &["note: assuming the default configuration"]);
        user.cluster_free(&["timeline", "-f", file, "--svg", "none/bad.svg"])
            .with(3, &["error: cannot write none/bad.svg: "]);
        let of_export = std::fs::read_to_string(user.file("bad.html")).expect("a file");
        user.run(&[&["timeline", "bad"], &pictures[..]].concat()).with(0, &said);
        let svg = std::fs::read_to_string(user.file("bad.svg")).expect("a file");
        let html = std::fs::read_to_string(user.file("bad.html")).expect("a file");
        for text in [&of_export, &html] {
            assert!(text.contains("exit code 3"), "{text}");
            assert!(text.contains("&lt;b&gt;\\u{1b}[2Jbad") && !text.contains("<b>"), "{text}");
        }
        assert!(svg.contains("attempt 0") && svg.contains("class=\"running\""), "{svg}");

        let kubeconfig = plane().kubeconfig().to_owned();
        let mut command = Command::new(PROGRAM);
        command.args(["web", "-n", &case.namespace, "--kubeconfig"]).arg(kubeconfig);
        let served = Served::start(&mut command);
        let (host, path) = served.parts();
        let events = BufReader::new(served.ask("GET", host, &format!("{path}events")));
        let mut lines = events.lines().map(|line| line.expect("a line"));
        assert!(lines.any(|line| line.contains("\"name\":\"bad\"") && line.contains("Failed")));
        case.create(wrapper("new", json!({}), vec![pod("new-p", &[])])).await;
        assert!(lines.any(|line| line.contains("\"name\":\"new\"")), "a change is told");
        let story = served.json(&format!("story?namespace={}&name=bad", case.namespace));
        assert_eq!(story["description"]["failure"]["exitCode"], 3, "{story}");
        assert_eq!(story["attempts"]["rows"][0][5], "Failed", "{story}");
    });
}

/// Ages are written as in `list`, and what is invisible is escaped.
fn texts_are_those_of_the_commands(browser: &mut Browser) {
    let dom = |call: &str| {
        format!("import(new URL('dom.js', location.href).href).then(dom => dom.{call})")
    };
    for (seconds, want) in [
        (119, "119s"),
        (320, "5m20s"),
        (601, "10m"),
        (10_860, "3h1m"),
        (90_000, "25h"),
        (172_800, "2d"),
        (187_200, "2d4h"),
        (864_000, "10d"),
    ] {
        assert_eq!(browser.eval(&dom(&format!("span({seconds})"))), want);
    }
    for call in [
        r"plain('a\u202e\n\u200bb')",
        r"el('p', {}, 'a\u202e\n\u200bb').textContent",
        r"el('p', {title: 'a\u202e\n\u200bb'}).title",
        r"shape('text', {}, 'a\u202e\n\u200bb').textContent",
    ] {
        assert_eq!(browser.eval(&dom(call)), r"a\u{202e}\n\u{200b}b", "{call}");
    }
    assert_eq!(browser.eval(&dom(r"el('option', {value: 'a\u200b'}).value.length")), 2);
    let list = "import(new URL('list.js', location.href).href)";
    for (shown, all, want) in
        [(1, 1, "1 AppWrapper"), (2, 2, "2 AppWrappers"), (1, 2, "1 of 2 AppWrappers")]
    {
        let total = format!("{list}.then(list => list.total({shown}, {all}))");
        assert_eq!(browser.eval(&total), want);
    }
    for (more, want) in [(0, "1"), (2, "1 (+2)")] {
        let row = format!("{{restarts: 1, uncountedRestarts: {more}}}");
        let counted = format!("{list}.then(list => String(list.counted({row})))");
        assert_eq!(browser.eval(&counted), want);
    }
}

#[test]
fn a_browser_shows_the_page() {
    let Some(program) = browser::program() else { return };
    let served = demo();
    let folder = std::env::temp_dir().join(format!("appwrapper-browser-{}", std::process::id()));
    let mut browser = Browser::start(&program, folder);
    browser.open(&format!("{}#default/train", served.url), 1360, 900);
    browser.until("document.querySelector('#story h2')?.textContent.includes('Succeeded')");
    browser.until("document.querySelectorAll('#list .row:not([hidden])').length === 2");
    let text = |browser: &mut Browser, of: &str| {
        browser.eval(&format!("document.querySelector({of:?}).textContent")).to_string()
    };
    let why = text(&mut browser, "#story [aria-label=Why]");
    assert!(why.contains("components") && why.contains("node"), "{why}");
    let tree = text(&mut browser, "#story .tree");
    assert!(tree.contains("AppWrapper/train"), "{tree}");
    // the picture to keep is what the page offers, whole
    browser.eval(
        "window.saved = ''; const image = document.querySelector('a[download][href^=\"picture.svg\"]'); \
         fetch(image.href).then(answer => answer.text()).then(text => saved = text); true",
    );
    browser.until("saved !== ''");
    let saved = browser.eval("saved");
    let saved = saved.as_str().expect("a text");
    assert!(saved.starts_with("<svg") && saved.contains("train-worker-0"), "{saved}");
    assert!(!saved.contains("<script"), "{saved}");
    browser::keep("timeline.svg", saved);
    // the slider goes back to a moment in the second attempt
    let back = "const it = document.getElementById('slider'); it.value = Math.floor(it.max * 0.75); \
                it.dispatchEvent(new Event('input')); true";
    browser.eval(back);
    browser.until("document.querySelector('#story h2')?.textContent.includes('Running')");
    browser.picture("web-light");
    browser.set_dark(true);
    browser.picture("web-dark");
    browser.set_dark(false);
    // the keyboard alone is enough
    browser.eval("document.getElementById('list').focus(); true");
    browser.press("ArrowDown");
    browser.until("location.hash === '#default/evaluate' || location.hash === '#default/train'");
    browser.press("Enter");
    browser.until("document.activeElement.id === 'story'");
    // the link to the list leaves what is shown
    let hash = browser.eval("location.hash");
    browser.eval("document.querySelector('.skip').click(); true");
    assert_eq!(browser.eval("document.activeElement.id"), "list");
    assert_eq!(browser.eval("location.hash"), hash);
    texts_are_those_of_the_commands(&mut browser);
    assert_eq!(browser.eval("document.documentElement.lang"), "en");
    let unnamed = "[...document.querySelectorAll('button, input, select')].filter(it => \
                   !it.labels?.length && !it.textContent.trim()).length";
    assert_eq!(browser.eval(unnamed), 0, "every control has a name");
    assert_eq!(browser.errors, Vec::<Value>::new());
}
