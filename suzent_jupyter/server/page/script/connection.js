// The connection: joining, waiting for approval, being told no, coming back.

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
