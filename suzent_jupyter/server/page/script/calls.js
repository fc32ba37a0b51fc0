// Calls of the gateway: each runs one offer and is answered once.

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
