//! Headless Chromium through its DevTools protocol, over a pipe: opens pages, measures them, moves the pointer, takes
//! pictures.
//!
//! With `--remote-debugging-pipe` the browser reads commands from descriptor 3 and writes answers and events to 4, each
//! a JSON text that ends with a zero byte. A shell makes our pipes these descriptors.
//!
//! Source: the DevTools protocol's documentation, domains Page, Runtime, Input, Network, Log and Emulation.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// A command without an answer within this time fails the test.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the installed browser.
pub fn installed() -> Option<PathBuf> {
    let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name))).find(|path| path.is_file())
}

/// The view of a page.
#[derive(Clone, Copy, Debug)]
pub struct View {
    pub width: u32,
    pub is_dark: bool,
    pub has_scripts: bool,
}

/// A browser with one tab; ends when dropped.
pub struct Browser {
    child: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    number: u64,
    events: Vec<Value>,
    said: PathBuf,
}

impl Browser {
    /// Starts the program with a new profile in `place`.
    pub fn start(program: &Path, place: &Path) -> Browser {
        let said = place.join("browser.stderr");
        let mut child = Command::new("sh")
            .args(["-c", r#"exec "$0" "$@" 3<&0 4>&1 >&2 </dev/null"#])
            .arg(program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-extensions", "--remote-debugging-pipe"])
            .args(["--hide-scrollbars", "--force-color-profile=srgb"])
            .arg(format!("--user-data-dir={}", place.join("profile").display()))
            .env("HOME", place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&said).unwrap())
            .spawn()
            .unwrap();
        let commands = child.stdin.take().unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap());
        let (send, messages) = channel();
        // Ends with the browser, which closes the pipe.
        thread::spawn(move || {
            let mut message = Vec::new();
            while answers.read_until(0, &mut message).is_ok_and(|bytes| bytes > 0) {
                message.pop();
                if serde_json::from_slice(&message).is_ok_and(|json| send.send(json).is_err()) {
                    break;
                }
                message.clear();
            }
        });
        let mut browser = Browser { child, commands, messages, session: None, number: 0, events: Vec::new(), said };
        let tab = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attached = browser.call("Target.attachToTarget", json!({"targetId": tab["targetId"], "flatten": true}));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method of the protocol and returns its result. Events go to [`Browser::events`].
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.number += 1;
        let mut command = json!({"id": self.number, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).unwrap_or_else(|_| self.died(method));
        loop {
            let message = self.next(method);
            if message["id"] != self.number {
                self.events.push(message);
                continue;
            }
            assert!(message["error"].is_null(), "{method}: {}", message["error"]);
            return message["result"].clone();
        }
    }

    fn next(&mut self, method: &str) -> Value {
        self.messages.recv_timeout(PATIENCE).unwrap_or_else(|_| self.died(method))
    }

    fn died(&self, method: &str) -> ! {
        panic!("{method}: no answer from the browser: {}", fs::read_to_string(&self.said).unwrap_or_default());
    }

    /// Opens a file and waits until it is drawn.
    pub fn open(&mut self, page: &Path, view: View) {
        let phone = view.width < 600;
        let metrics = json!({"width": view.width, "height": 900, "deviceScaleFactor": 1, "mobile": phone});
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let scheme = if view.is_dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
        self.call("Emulation.setScriptExecutionDisabled", json!({"value": !view.has_scripts}));
        self.events.clear();
        let opened = self.call("Page.navigate", json!({"url": format!("file://{}", url_of(page))}));
        assert!(opened["errorText"].is_null(), "{}: {opened}", page.display());
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.next("Page.loadEventFired");
            self.events.push(event);
        }
        if view.has_scripts {
            self.settle();
        }
    }

    /// Waits for two frames.
    pub fn settle(&mut self) {
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))");
    }

    /// Evaluates an expression of JavaScript; returns its value, or that of its promise.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.call("Runtime.evaluate", parameters);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// Moves the pointer to a position in the window.
    pub fn point(&mut self, x: f64, y: f64) {
        self.mouse("mouseMoved", x, y, 0);
        self.settle();
    }

    /// Clicks a position in the window.
    pub fn click(&mut self, x: f64, y: f64) {
        self.mouse("mouseMoved", x, y, 0);
        self.mouse("mousePressed", x, y, 1);
        self.mouse("mouseReleased", x, y, 1);
        self.settle();
    }

    fn mouse(&mut self, kind: &str, x: f64, y: f64, clicks: u32) {
        let button = if clicks > 0 { "left" } else { "none" };
        let parameters = json!({"type": kind, "x": x, "y": y, "button": button, "clickCount": clicks});
        self.call("Input.dispatchMouseEvent", parameters);
    }

    pub fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            self.call("Input.dispatchKeyEvent", json!({"type": kind, "key": key, "code": key}));
        }
        self.settle();
    }

    /// Messages on the console, uncaught errors, violations of the page's policy, and requests of anything but `page`.
    pub fn complaints(&self, page: &Path) -> Vec<String> {
        let own = format!("file://{}", url_of(page));
        let complaints = self.events.iter().filter_map(|event| {
            let parameters = &event["params"];
            match event["method"].as_str()? {
                "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" => Some(parameters.to_string()),
                "Log.entryAdded" => Some(parameters["entry"]["text"].to_string()),
                "Network.requestWillBeSent" if parameters["request"]["url"] != own => {
                    Some(format!("requested {}", parameters["request"]["url"]))
                }
                _ => None,
            }
        });
        complaints.collect()
    }

    /// Takes a picture of the whole page, as PNG.
    pub fn picture(&mut self) -> Vec<u8> {
        let picture = self.call("Page.captureScreenshot", json!({"captureBeyondViewport": true}));
        STANDARD.decode(picture["data"].as_str().unwrap_or_default()).unwrap()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Encodes a path for a URL.
fn url_of(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let bytes = path.to_str().expect("a path in UTF-8").bytes();
    bytes.map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
