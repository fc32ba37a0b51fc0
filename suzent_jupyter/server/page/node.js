// A browser as a node. ES2017 and nothing newer, since televisions are slow to learn. Whatever comes from the gateway
// is shown as text, never as markup.
(function () {
  "use strict";

  var FIRST_ANSWER = 30000; // ms until the gateway's first frame
  var SETTLED = 10000; // ms a connection must last to count as good
  var LONGEST_WAIT = 30; // s between two attempts
  var MOST_TEXT = 2097152; // characters
  var MOST_IMAGE = 16777216; // characters of a data: URL
  var MOST_QUESTIONS = 4;
  var FITTED = 600; // characters up to which a text is made as large as the screen allows

  function element(id) { return document.getElementById(id); }
  function isText(value) { return typeof value === "string"; }
  function noop() {}
  function later(ms) { return new Promise(function (done) { setTimeout(done, ms); }); }
  function show(id, visible) { element(id).hidden = !visible; }

  // ---- what is kept, one record for each gateway of this origin

  var base = location.pathname.replace(/\/+$/, "").replace(/\/node$/, "");
  var SOCKET = (location.protocol === "https:" ? "wss://" : "ws://") + location.host + base + "/ws/node";
  var KEY = "suzent-node:" + base;
  var kept = { name: "", token: "", identity: "", joined: false };

  function recall() {
    try {
      var found = JSON.parse(localStorage.getItem(KEY) || "{}");
      Object.keys(kept).forEach(function (field) {
        if (found && typeof found[field] === typeof kept[field]) kept[field] = found[field];
      });
    } catch (error) { noop(error); }
  }

  function keep(changes) {
    Object.keys(changes).forEach(function (field) { kept[field] = changes[field]; });
    try { localStorage.setItem(KEY, JSON.stringify(kept)); } catch (error) { noop(error); }
  }

  function newIdentity() {
    var bytes = new Uint8Array(16);
    crypto.getRandomValues(bytes);
    return Array.prototype.map.call(bytes, function (byte) { return ("0" + byte.toString(16)).slice(-2); }).join("");
  }

  // ---- the pairing link: its ticket leaves the address bar before anybody can read or share it

  function takeTicket() {
    if (location.hash.length < 2) return;
    var given = new URLSearchParams(location.hash.slice(1)).get("join");
    history.replaceState(null, "", location.pathname + location.search);
    if (given) {
      try { sessionStorage.setItem(KEY, given.slice(0, 512)); } catch (error) { noop(error); }
      ticketHere = given.slice(0, 512);
    }
  }

  var ticketHere = "";
  function ticket() {
    try { return ticketHere || sessionStorage.getItem(KEY) || ""; } catch (error) { return ticketHere; }
  }
  function dropTicket() {
    ticketHere = "";
    try { sessionStorage.removeItem(KEY); } catch (error) { noop(error); }
  }

  // ---- what kind of device this is

  var agent = navigator.userAgent;
  var touches = navigator.maxTouchPoints || 0;

  function kind() {
    if (/Web0S|webOS|Tizen|SMART-TV|SmartTV|BRAVIA|HbbTV|NetCast|GoogleTV|Android TV|CrKey|\bAFT|Roku|Viera/i.test(agent)) {
      return ["tv", "TV"];
    }
    if (/iPhone|iPod/.test(agent)) return ["ios", "iPhone"];
    if (/iPad/.test(agent) || (/Macintosh/.test(agent) && touches > 1)) return ["ios", "iPad"];
    if (/Android/.test(agent)) return ["android", /Mobile/.test(agent) ? "Android phone" : "Android tablet"];
    if (/CrOS/.test(agent)) return ["chromeos", "Chromebook"];
    if (/Windows/.test(agent)) return ["windows", "Windows PC"];
    if (/Macintosh/.test(agent)) return ["macos", "Mac"];
    if (/Linux/.test(agent)) return ["linux", "Linux PC"];
    return ["browser", "Browser"];
  }

  // ---- the screen

  var pictureUrl = "";

  function clearStage() {
    var picture = element("picture");
    show("shown", false);
    show("text", false);
    show("picture", false);
    element("text").textContent = "";
    picture.removeAttribute("src");
    if (pictureUrl) URL.revokeObjectURL(pictureUrl);
    pictureUrl = "";
    show("empty", true);
  }

  function fit() {
    var box = element("text"), span = box.firstChild;
    if (box.hidden || !span) return;
    var length = span.textContent.length;
    var isLong = length > FITTED || !element("picture").hidden;
    box.classList.toggle("long", length > FITTED);
    box.style.fontSize = "";
    if (isLong || !box.clientHeight) return;
    var low = 16, high = Math.max(17, box.clientHeight * 0.5);
    for (var step = 0; step < 12; step++) {
      var middle = (low + high) / 2;
      box.style.fontSize = middle + "px";
      if (box.scrollHeight > box.clientHeight || box.scrollWidth > box.clientWidth || breaksWords(span, middle)) high = middle;
      else low = middle;
    }
    box.style.fontSize = Math.floor(low) + "px";
  }

  // A word must not be broken for the sake of size: the longest one has to fit the width.
  function breaksWords(span, size) {
    var longest = span.textContent.split(/\s+/).reduce(function (most, word) { return Math.max(most, word.length); }, 0);
    return longest <= 24 && longest * size * 0.62 > span.parentNode.clientWidth * 0.92;
  }

  // The bytes of a picture from a data: URL. Only raster formats, and only if the bytes are what the URL says.
  function decodePicture(url) {
    var head = /^data:image\/(png|jpeg|gif|webp);base64,/.exec(url.slice(0, 32));
    if (!head) throw new Error("image must be a data: URL with base64 of a PNG, JPEG, GIF or WebP picture.");
    if (url.length > MOST_IMAGE) throw new Error("image takes more than 16 MiB.");
    var binary;
    try {
      binary = atob(url.slice(head[0].length));
    } catch (error) {
      throw new Error("image is not valid base64.");
    }
    var bytes = new Uint8Array(binary.length);
    for (var index = 0; index < binary.length; index++) bytes[index] = binary.charCodeAt(index);
    var start = binary.slice(0, 12);
    var is = { png: /^\x89PNG\r\n\x1a\n/, jpeg: /^\xff\xd8\xff/, gif: /^GIF8[79]a/, webp: /^RIFF[^]{4}WEBP/ }[head[1]];
    if (!is.test(start)) throw new Error("image does not hold a " + head[1].toUpperCase() + " picture.");
    return new Blob([bytes], { type: "image/" + head[1] });
  }

  function loadPicture(url) {
    return new Promise(function (done, fail) {
      var picture = new Image();
      picture.onload = function () { done(picture); };
      picture.onerror = function () { fail(new Error("image can't be decoded by this browser.")); };
      picture.src = url;
    });
  }

  async function screenShow(params) {
    var text = params.text, image = params.image, loaded = null, url = "";
    if (text !== undefined && text !== null && !isText(text)) throw new Error("text must be a text.");
    if (image !== undefined && image !== null && !isText(image)) throw new Error("image must be a data: URL.");
    if (!text && !image) throw new Error("Give text, image or both.");
    if (text && text.length > MOST_TEXT) throw new Error("text is longer than 2,097,152 characters.");
    if (image) {
      url = URL.createObjectURL(decodePicture(image));
      try {
        loaded = await loadPicture(url);
      } catch (error) {
        URL.revokeObjectURL(url);
        throw error;
      }
    }
    clearStage();
    if (loaded) {
      pictureUrl = url;
      element("picture").src = url;
      element("picture").alt = text ? "" : "Picture sent by the notebook";
      show("picture", true);
    }
    show("empty", false);
    show("shown", true);
    if (text) {
      var span = document.createElement("span");
      span.dir = "auto";
      span.textContent = text;
      element("text").appendChild(span);
      show("text", true);
      fit();
    }
    var answer = { shown: true };
    if (loaded) answer.image = { width: loaded.naturalWidth, height: loaded.naturalHeight };
    if (text) answer.characters = text.length;
    return answer;
  }

  function screenClear() {
    clearStage();
    return { cleared: true };
  }

  // ---- speech, one text after the other

  var speaking = Promise.resolve();

  function screenSpeak(params, call) {
    if (!isText(params.text) || !params.text.trim()) throw new Error("Give a text to say.");
    var mine = speaking.then(function () { return speak(params, call); });
    speaking = mine.catch(noop);
    return mine;
  }

  function speak(params, call) {
    return new Promise(function (done, fail) {
      if (call.over) { fail(new Error("Cancelled.")); return; }
      var words = new SpeechSynthesisUtterance(params.text);
      if (isText(params.lang) && params.lang) words.lang = params.lang;
      if (typeof params.rate === "number") words.rate = Math.min(4, Math.max(0.25, params.rate));
      var told = 0;
      words.onboundary = function (event) {
        if (Date.now() - told < 250) return;
        told = Date.now();
        call.progress(Math.min(1, event.charIndex / params.text.length));
      };
      words.onend = function () { done({ spoken: params.text }); };
      words.onerror = function (event) {
        fail(new Error(event.error === "not-allowed"
          ? "The browser allows sound only after somebody touches the page once."
          : "The browser could not say it (" + String(event.error) + ")."));
      };
      call.stop = function () { speechSynthesis.cancel(); fail(new Error("Cancelled.")); };
      speechSynthesis.speak(words);
    });
  }

  // ---- about the device

  async function deviceInfo() {
    var view = window.screen || {};
    var answer = {
      name: kept.name,
      platform: kind()[0],
      user_agent: agent,
      language: navigator.language || "",
      time_zone: Intl.DateTimeFormat().resolvedOptions().timeZone || "",
      screen: { width: view.width, height: view.height, pixel_ratio: window.devicePixelRatio || 1 },
      viewport: { width: window.innerWidth, height: window.innerHeight },
      touch: touches > 0,
      visible: document.visibilityState !== "hidden",
      full_screen: document.body.classList.contains("wall"),
      stays_awake: Boolean(awake),
      secure_context: Boolean(window.isSecureContext),
      cores: navigator.hardwareConcurrency || null
    };
    if (navigator.getBattery) {
      try {
        var battery = await Promise.race([navigator.getBattery(), later(500)]);
        if (battery) answer.battery = { level: battery.level, charging: battery.charging };
      } catch (error) { noop(error); }
    }
    return answer;
  }

  function vibrate(params) {
    var pattern = Array.isArray(params.pattern) ? params.pattern : [params.duration === undefined ? 300 : params.duration];
    var fits = pattern.length > 0 && pattern.length <= 64 && pattern.every(function (part) {
      return typeof part === "number" && part >= 0 && part <= 10000;
    });
    if (!fits) throw new Error("Durations must be numbers from 0 to 10000, in milliseconds; at most 64 of them.");
    if (!navigator.vibrate(pattern.map(Math.round))) {
      throw new Error("The browser lets a page vibrate only after somebody touches it once.");
    }
    return { vibrated: true };
  }

  // ---- consent: one question at a time, each first use, answered by the person here

  var allowed = {};
  var questions = [];
  var asked = null;
  var before = null;

  function consent(what, title, more, call) {
    if (allowed[what]) return Promise.resolve();
    if (questions.length >= MOST_QUESTIONS) throw new Error("Other questions wait for an answer on this device.");
    return new Promise(function (done, fail) {
      var question = { what: what, title: title, more: more, done: done, fail: fail };
      call.stop = function () { settle(question, fail, new Error("Nobody answered the question on this device.")); };
      questions.push(question);
      askNext();
    });
  }

  function askNext() {
    if (asked) return;
    asked = questions[0] || null;
    show("consent", Boolean(asked));
    document.querySelector("main").inert = Boolean(asked);
    if (!asked) {
      if (before && before.focus) before.focus();
      before = null;
      return;
    }
    before = before || document.activeElement;
    element("question").textContent = asked.title;
    element("question-more").textContent = asked.more;
    // A finger that was on its way to something else must not say yes.
    [element("allow-once"), element("allow-session")].forEach(function (button) {
      button.disabled = true;
      setTimeout(function () { button.disabled = false; }, 500);
    });
    element("deny").focus();
  }

  function settle(question, act, value) {
    var place = questions.indexOf(question);
    if (place < 0) return;
    questions.splice(place, 1);
    act(value);
    if (asked === question) asked = null;
    askNext();
  }

  function answerQuestion(yes, always) {
    if (!asked) return;
    var question = asked;
    if (yes && always) {
      allowed[question.what] = true;
      questions.filter(function (other) { return other.what === question.what && other !== question; })
        .forEach(function (other) { settle(other, other.done); });
    }
    if (yes) settle(question, question.done);
    else settle(question, question.fail, new Error("The person at this device did not allow it."));
  }

  function trapKeys(event) {
    if (!asked) return;
    if (event.key === "Escape" || event.key === "Esc") {
      event.preventDefault();
      answerQuestion(false);
    } else if (event.key === "Tab") {
      var buttons = [element("allow-once"), element("allow-session"), element("deny")]
        .filter(function (button) { return !button.disabled; });
      var place = buttons.indexOf(document.activeElement) + (event.shiftKey ? -1 : 1);
      event.preventDefault();
      buttons[(place + buttons.length) % buttons.length].focus();
    }
  }

  // ---- camera and location

  async function cameraSnap(params, call) {
    await consent("camera", "Take a photo with this device’s camera?",
      "The notebook asks for it. The photo is sent to the gateway you joined.", call);
    if (call.over) throw new Error("Cancelled.");
    var facing = params.facing === "user" ? "user" : "environment";
    var stream;
    try {
      stream = await navigator.mediaDevices.getUserMedia({
        audio: false,
        video: { facingMode: facing, width: { ideal: 1920 }, height: { ideal: 1080 } }
      });
    } catch (error) {
      throw new Error({
        NotAllowedError: "The browser refused the camera; allow it for this page in the browser’s settings.",
        NotFoundError: "This device has no camera.",
        NotReadableError: "The camera is used by another program."
      }[error.name] || "The camera can’t be opened (" + error.name + ").");
    }
    var video = document.createElement("video");
    try {
      video.muted = true;
      video.setAttribute("playsinline", "");
      video.srcObject = stream;
      await new Promise(function (done, fail) {
        call.stop = function () { fail(new Error("Cancelled.")); };
        video.onerror = function () { fail(new Error("The camera delivers no picture.")); };
        video.onloadeddata = done;
        video.play().catch(fail);
      });
      await later(300); // the first pictures of most cameras are dark
      if (call.over) throw new Error("Cancelled.");
      var width = video.videoWidth, height = video.videoHeight;
      if (!width || !height) throw new Error("The camera delivers no picture.");
      var most = typeof params.max_size === "number" && params.max_size >= 16 ? params.max_size : 1920;
      var scale = Math.min(1, most / Math.max(width, height));
      var canvas = document.createElement("canvas");
      canvas.width = Math.max(1, Math.round(width * scale));
      canvas.height = Math.max(1, Math.round(height * scale));
      canvas.getContext("2d").drawImage(video, 0, 0, canvas.width, canvas.height);
      var url = canvas.toDataURL("image/jpeg", 0.9);
      return { media_type: "image/jpeg", base64: url.slice(url.indexOf(",") + 1), name: "photo.jpg" };
    } finally {
      stream.getTracks().forEach(function (track) { track.stop(); });
      video.srcObject = null;
    }
  }

  async function locationGet(params, call) {
    await consent("location", "Send this device’s location?",
      "The notebook asks for it. The location is sent to the gateway you joined.", call);
    if (call.over) throw new Error("Cancelled.");
    return new Promise(function (done, fail) {
      call.stop = function () { fail(new Error("Cancelled.")); };
      navigator.geolocation.getCurrentPosition(function (position) {
        var at = position.coords;
        done({
          latitude: at.latitude, longitude: at.longitude, accuracy: at.accuracy, altitude: at.altitude,
          heading: isNaN(at.heading) ? null : at.heading, speed: at.speed,
          timestamp: new Date(position.timestamp).toISOString()
        });
      }, function (error) {
        fail(new Error({
          1: "The browser refused the location; allow it for this page in the browser’s settings.",
          2: "This device does not know where it is.",
          3: "This device did not find out where it is in time."
        }[error.code] || "The location can’t be read."));
      }, { enableHighAccuracy: params.high_accuracy !== false, timeout: 60000, maximumAge: 0 });
    });
  }

  // ---- what is offered: only what works in this browser, on this page

  function schema(properties, required) {
    return { type: "object", properties: properties, required: required || [], additionalProperties: false };
  }

  function offer(run, label, name, description, params, input) {
    return { run: run, label: label, declared: { name: name, description: description, params_schema: params, input_schema: input } };
  }

  function screenOffers() {
    return [
      offer(screenShow, "Show text and pictures", "screen.show", "Show a text, a picture or both on this screen.",
        { text: "str", image: "str" },
        schema({
          text: { type: "string", maxLength: MOST_TEXT, description: "What to show, as plain text." },
          image: { type: "string", maxLength: MOST_IMAGE, description: "A picture as data:image/png;base64,… (PNG, JPEG, GIF or WebP)." }
        })),
      offer(screenClear, "Clear the screen", "screen.clear", "Clear this screen.", {}, schema({})),
      offer(deviceInfo, "Describe this device", "device.info", "Tell screen size, platform and state of this device.", {}, schema({}))
    ];
  }

  function speechOffers() {
    if (!window.speechSynthesis || !window.SpeechSynthesisUtterance || !speechSynthesis.getVoices().length) return [];
    return [offer(screenSpeak, "Read texts out", "screen.speak", "Read a text out on this device; answers when it has been said.",
      { text: "str", lang: "str", rate: "float" },
      schema({
        text: { type: "string", minLength: 1, maxLength: 5000, description: "What to say." },
        lang: { type: "string", maxLength: 35, description: "Language as in BCP 47, such as en-GB." },
        rate: { type: "number", minimum: 0.25, maximum: 4, default: 1, description: "Speed; 1 is the voice's own." }
      }, ["text"]))];
  }

  function vibrateOffers() {
    if (!navigator.vibrate || !touches || !window.matchMedia || !matchMedia("(pointer: coarse)").matches) return [];
    return [offer(vibrate, "Vibrate", "notify.vibrate", "Vibrate this device.", { duration: "int", pattern: "list" },
      schema({
        duration: { type: "integer", minimum: 0, maximum: 10000, default: 300, description: "Milliseconds." },
        pattern: { type: "array", items: { type: "integer", minimum: 0, maximum: 10000 }, minItems: 1, maxItems: 64, description: "Milliseconds on, off, on, … instead." }
      }))];
  }

  async function cameraOffers() {
    var devices = window.isSecureContext && navigator.mediaDevices;
    if (!devices || !devices.getUserMedia || !devices.enumerateDevices) return [];
    var found = await Promise.race([devices.enumerateDevices(), later(2000)]).catch(noop);
    if (!found || !found.some(function (each) { return each.kind === "videoinput"; })) return [];
    return [offer(cameraSnap, "Take photos, if you allow it", "camera.snap", "Take a photo, after the person at the device allowed it.",
      { facing: "str", max_size: "int" },
      schema({
        facing: { type: "string", enum: ["environment", "user"], default: "environment", description: "The camera at the back, or the one facing the person." },
        max_size: { type: "integer", minimum: 16, maximum: 8192, default: 1920, description: "Pixels of the longer side at the most." }
      }))];
  }

  function locationOffers() {
    if (!window.isSecureContext || !navigator.geolocation) return [];
    return [offer(locationGet, "Tell its location, if you allow it", "location.get", "Tell where this device is, after the person there allowed it.",
      { high_accuracy: "bool" },
      schema({ high_accuracy: { type: "boolean", default: true, description: "Use GPS where there is one." } }))];
  }

  var offers = [];

  async function findOffers() {
    var camera = await cameraOffers();
    offers = screenOffers().concat(speechOffers(), vibrateOffers(), camera, locationOffers());
    var list = element("offers");
    list.textContent = "";
    offers.forEach(function (each) {
      var item = document.createElement("li"), command = document.createElement("span"), code = document.createElement("code");
      item.appendChild(document.createTextNode(each.label));
      code.textContent = each.declared.name;
      command.appendChild(code);
      item.appendChild(command);
      list.appendChild(item);
    });
    show("insecure", !window.isSecureContext);
  }

  function declared() { return offers.map(function (each) { return each.declared; }); }

  // Voices arrive late in most browsers.
  function voicesKnown() {
    if (!window.speechSynthesis || speechSynthesis.getVoices().length) return Promise.resolve();
    return new Promise(function (done) {
      if (speechSynthesis.addEventListener) speechSynthesis.addEventListener("voiceschanged", done, { once: true });
      setTimeout(done, 1000);
    });
  }

  async function voicesChanged() {
    var had = offers.length;
    await findOffers();
    if (offers.length !== had && connection && connection.features.indexOf("update") >= 0) {
      connection.send({ type: "update", capabilities: declared() });
    }
  }

  // ---- views

  function view(name) {
    document.body.setAttribute("data-view", name);
    ["join", "pending", "joined"].forEach(function (each) { show(each, each === name); });
    if (name !== "joined") setWall(false);
    if (name === "joined") fit();
  }

  function status(text, mood) {
    element("status").textContent = text;
    element("dot").className = "dot " + (mood || "");
  }

  function notice(text) {
    element("notice").textContent = text;
    show("notice", Boolean(text));
  }

  function nameShown() {
    element("bar-name").textContent = kept.name || "Device";
    element("empty-name").textContent = kept.name;
  }

  function activity(text) { element("activity").textContent = text; }

  function clock(date) { return date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }); }

  function stopWith(text) {
    goal = false;
    stayAwake(false);
    clearStage();
    view("join");
    status("Not joined", text ? "bad" : "");
    notice(text);
    element("join-button").disabled = false;
    element("join-button").textContent = kept.token ? "Join again" : "Join";
  }

  // ---- calls

  function Calls(send, mostBytes) {
    this.open = new Map();
    this.send = send;
    this.most = mostBytes;
  }

  Calls.prototype.start = function (frame) {
    var calls = this, id = frame.request_id;
    if (!isText(id) || this.open.has(id)) return;
    var call = { over: false, stop: noop, seq: 0, timer: 0 };
    call.progress = function (fraction) {
      if (!call.over) calls.send({ type: "progress", request_id: id, seq: call.seq++, fraction: fraction });
    };
    this.open.set(id, call);
    if (typeof frame.timeout === "number" && frame.timeout > 0) {
      call.timer = setTimeout(function () { calls.cancel(id); }, Math.min(frame.timeout, 86400) * 1000);
    }
    this.run(frame, call).then(function (result) {
      calls.answer(id, call, { type: "result", request_id: id, success: true, result: result, error: null });
    }, function (error) {
      calls.answer(id, call, { type: "result", request_id: id, success: false, result: null, error: String(error.message || error).slice(0, 2000) });
    });
  };

  Calls.prototype.run = async function (frame, call) {
    var offered = offers.filter(function (each) { return each.declared.name === frame.command; })[0];
    if (!offered) throw new Error("This browser does not offer that command.");
    var params = frame.params && typeof frame.params === "object" ? frame.params : {};
    activity(frame.command + " at " + clock(new Date()));
    return offered.run(params, call);
  };

  Calls.prototype.answer = function (id, call, frame) {
    clearTimeout(call.timer);
    call.over = true;
    if (this.open.get(id) !== call) return;
    this.open.delete(id);
    var text = JSON.stringify(frame);
    if (text.length > this.most) {
      text = JSON.stringify({ type: "result", request_id: id, success: false, result: null, error: "The answer is larger than the gateway takes in one frame." });
    }
    this.send(text);
  };

  Calls.prototype.cancel = function (id) {
    var call = this.open.get(id);
    if (!call || call.over) return;
    call.over = true;
    call.stop();
  };

  Calls.prototype.end = function () {
    var calls = this;
    Array.from(this.open.keys()).forEach(function (id) { calls.cancel(id); });
    this.open.clear();
  };

  // ---- the connection

  var goal = false; // whether to be joined
  var connection = null;
  var attempt = 0;
  var retryTimer = 0;

  function Connection() {
    var self = this;
    this.features = [];
    this.opened = 0;
    this.heard = 0;
    this.pings = [];
    this.verdict = null;
    this.problem = "";
    this.over = false;
    this.calls = null;
    this.socket = new WebSocket(SOCKET);
    this.patience = setTimeout(function () { self.drop(); }, FIRST_ANSWER);
    this.watch = setInterval(function () { self.listen(); }, 10000);
    this.socket.onopen = function () {
      self.opened = Date.now();
      var hello = {
        type: "connect", display_name: kept.name, platform: kind()[0], capabilities: declared(), device_token: kept.token,
        node_identity: kept.identity, features: ["cancel", "progress", "update"], description: "A web browser", tags: ["browser"]
      };
      if (ticket()) hello.ticket = ticket(); // beside a token too: the gateway may not know that one any more
      self.send(hello);
    };
    this.socket.onmessage = function (event) {
      if (self.over) return;
      var frame = null;
      try { frame = JSON.parse(event.data); } catch (error) { noop(error); }
      if (frame && typeof frame === "object") self.receive(frame);
    };
    this.socket.onclose = function (event) { self.ended(event.code, event.reason); };
  }

  Connection.prototype.send = function (frame) {
    if (this.socket.readyState === 1) this.socket.send(isText(frame) ? frame : JSON.stringify(frame));
  };

  Connection.prototype.drop = function () {
    var self = this;
    this.socket.close();
    // A peer that is gone never answers the close; the browser would wait for minutes.
    setTimeout(function () { self.ended(1006, ""); }, 1000);
  };

  // Three pings tell how often they come. When nothing comes any more, the network is gone without a word.
  Connection.prototype.listen = function () {
    if (this.pings.length < 3) return;
    var gap = Math.max(this.pings[2] - this.pings[1], this.pings[1] - this.pings[0]);
    if (Date.now() - this.heard > 2.5 * gap + 15000) this.drop();
  };

  Connection.prototype.receive = function (frame) {
    this.heard = Date.now();
    switch (frame.type) {
      case "pending": this.pending(frame); break;
      case "connected": this.connected(frame); break;
      case "approved": this.waiting(frame); break;
      case "invoke": if (this.calls) this.calls.start(frame); break;
      case "cancel": if (this.calls) this.calls.cancel(frame.request_id); break;
      case "error": this.refused(frame); break;
      case "ping":
        this.pings = this.pings.slice(-2).concat([Date.now()]);
        this.send({ type: "pong" });
        break;
    }
  };

  Connection.prototype.pending = function (frame) {
    clearTimeout(this.patience);
    var code = String(frame.pairing_code || "").slice(0, 16);
    element("code").textContent = code;
    element("command").textContent = "%suzent approve " + code;
    var until = new Date(frame.expires_at);
    element("expires").textContent = isNaN(until) ? "" : "The code is good until " + clock(until) + ", then there is a new one.";
    view("pending");
    status("Waiting for approval", "wait");
    stayAwake(true);
  };

  Connection.prototype.connected = function (frame) {
    clearTimeout(this.patience);
    if (isText(frame.device_token) && frame.device_token) keep({ token: frame.device_token });
    dropTicket();
    var limits = frame.limits || {};
    this.features = Array.isArray(frame.features) ? frame.features : [];
    this.calls = new Calls(this.send.bind(this), typeof limits.max_frame_bytes === "number" ? limits.max_frame_bytes : 16777216);
    notice("");
    view("joined");
    status("Joined", "good");
    stayAwake(true);
    this.waiting(frame);
  };

  Connection.prototype.waiting = function (frame) {
    var waits = Array.isArray(frame.pending_approval) ? frame.pending_approval : [];
    activity(waits.length ? "Waits for approval: " + waits.slice(0, 8).join(", ") : "No call yet");
  };

  Connection.prototype.refused = function (frame) {
    var text = [frame.message, frame.hint].filter(isText).join(" ").slice(0, 500) || "The gateway refused this device.";
    if (frame.retryable === true) {
      this.problem = text;
    } else {
      this.verdict = text;
      if (frame.code === "replaced") this.verdict = "";
      if (frame.code === "revoked" || frame.code === "pairing_denied") keep({ token: "", joined: false });
    }
  };

  Connection.prototype.ended = function (code, reason) {
    if (this.over) return;
    this.over = true;
    clearTimeout(this.patience);
    clearInterval(this.watch);
    if (this.calls) this.calls.end();
    if (connection === this) connection = null;
    if (!goal) return;
    if (code === 4003) {
      keep({ token: "", joined: false });
      stopWith(this.verdict || "The operator removed this device. Join again to ask for a new approval.");
    } else if (code === 4001) {
      stopWith("This device joined from another window or tab, which took the place of this one.");
    } else if (this.verdict || code === 1008) {
      stopWith(this.verdict || reason || "The gateway refused this device.");
    } else if (code === 1002) {
      stopWith("The gateway and this page don’t understand each other. Reload the page.");
    } else {
      again(this.opened && Date.now() - this.opened >= SETTLED, this.problem || reason);
    }
  };

  // Exponential backoff with full jitter, so that many devices don't come back in step.
  function again(settled, problem) {
    if (settled) attempt = 0;
    var bound = Math.min(LONGEST_WAIT, Math.pow(2, Math.min(attempt, 10)));
    attempt += 1;
    var wait = Math.max(0.5, Math.random() * bound);
    status((problem ? String(problem).slice(0, 300) + " " : "No connection. ") + "Trying again…", "wait");
    if (document.body.getAttribute("data-view") === "pending") {
      element("code").textContent = "······";
      element("command").textContent = "%suzent approve ······";
      element("expires").textContent = "";
    }
    clearTimeout(retryTimer);
    retryTimer = setTimeout(connect, wait * 1000);
  }

  function connect() {
    clearTimeout(retryTimer);
    if (!goal || connection) return;
    try {
      connection = new Connection();
    } catch (error) {
      stopWith("This browser can’t open the connection: " + error.message);
    }
  }

  function join() {
    goal = true;
    attempt = 0;
    notice("");
    nameShown();
    status("Connecting…", "wait");
    element("join-button").disabled = true;
    element("join-button").textContent = "Joining…";
    if (kept.token) view("joined");
    connect();
  }

  function leave() {
    goal = false;
    keep({ joined: false });
    clearTimeout(retryTimer);
    if (connection) connection.socket.close(1000, "left");
    stopWith("");
  }

  // ---- wall mode and staying awake

  var awake = null;
  var wantsAwake = false;
  var stirTimer = 0;

  function stayAwake(wanted) {
    wantsAwake = wanted;
    if (!wanted && awake) {
      awake.release().catch(noop);
      awake = null;
    }
    if (!wanted || awake || !navigator.wakeLock || document.visibilityState !== "visible") return;
    navigator.wakeLock.request("screen").then(function (lock) {
      if (!wantsAwake || awake) { lock.release().catch(noop); return; }
      awake = lock;
      lock.addEventListener("release", function () { if (awake === lock) awake = null; });
    }, noop);
  }

  function fullScreenElement() { return document.fullscreenElement || document.webkitFullscreenElement || null; }

  function setWall(on) {
    if (document.body.classList.contains("wall") === on) return;
    document.body.classList.toggle("wall", on);
    var root = document.documentElement, act = on
      ? root.requestFullscreen || root.webkitRequestFullscreen
      : fullScreenElement() && (document.exitFullscreen || document.webkitExitFullscreen);
    if (act) {
      var done = act.call(on ? root : document);
      if (done && done.catch) done.catch(noop); // without it the page still fills the window
    }
    if (on) element("unwall").focus({ preventScroll: true });
    else element("wall").focus({ preventScroll: true });
    stir(false);
    fit();
  }

  function stir(moved) {
    document.body.classList.toggle("stirred", moved);
    clearTimeout(stirTimer);
    if (moved) stirTimer = setTimeout(function () { stir(false); }, 3000);
  }

  function fullScreenChanged() {
    if (!fullScreenElement()) setWall(false);
    fit();
  }

  // ---- begin

  async function begin() {
    recall();
    takeTicket();
    if (!kept.identity) keep({ identity: newIdentity() });
    element("name").value = kept.name || kind()[1];
    nameShown();
    element("join-form").addEventListener("submit", function (event) {
      event.preventDefault();
      var name = element("name").value.trim().slice(0, 64);
      if (!name) { element("name").focus(); return; }
      keep({ name: name, joined: true });
      join();
    });
    element("give-up").addEventListener("click", leave);
    element("leave").addEventListener("click", leave);
    element("wall").addEventListener("click", function () { setWall(true); });
    element("unwall").addEventListener("click", function () { setWall(false); });
    element("allow-once").addEventListener("click", function () { answerQuestion(true, false); });
    element("allow-session").addEventListener("click", function () { answerQuestion(true, true); });
    element("deny").addEventListener("click", function () { answerQuestion(false); });
    document.addEventListener("keydown", trapKeys, true);
    ["pointermove", "pointerdown", "keydown"].forEach(function (name) {
      document.addEventListener(name, function () { if (document.body.classList.contains("wall")) stir(true); });
    });
    document.addEventListener("fullscreenchange", fullScreenChanged);
    document.addEventListener("webkitfullscreenchange", fullScreenChanged);
    document.addEventListener("visibilitychange", function () { if (wantsAwake) stayAwake(true); });
    window.addEventListener("resize", fit);
    window.addEventListener("hashchange", takeTicket);
    window.addEventListener("online", function () { if (goal && !connection) { clearTimeout(retryTimer); retryTimer = setTimeout(connect, 500); } });
    element("join-button").disabled = true;
    await voicesKnown();
    await findOffers();
    if (window.speechSynthesis && speechSynthesis.addEventListener) speechSynthesis.addEventListener("voiceschanged", voicesChanged);
    element("join-button").disabled = false;
    if (kept.name && kept.joined) join();
  }

  begin();
})();
