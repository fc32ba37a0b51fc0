// What kind of device this is, and what it tells about itself.

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
