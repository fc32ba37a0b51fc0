// Camera and location, with the consent of the person here.

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
