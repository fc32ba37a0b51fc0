// What is kept, one record for each gateway of this origin; the ticket of a pairing link only for as long as it
// is of use.

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

// The ticket leaves the address bar before anybody can read or share it.
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
