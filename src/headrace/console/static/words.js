// Numbers, sizes and times as people read them.

const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const WHOLE = new Intl.NumberFormat("en");

// Brokers say -1 for what they do not know.
export const whole = (value) => (value === null || value === undefined || value === -1 ? "–" : WHOLE.format(value));

export function short(value) {
  if (value === null || value === undefined) return "–";
  return Math.abs(value) < 10_000 ? WHOLE.format(Math.round(value * 10) / 10) : SHORT.format(value);
}

export function rate(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0/s";
  return value < 0.1 ? "<0.1/s" : `${short(value < 10 ? Math.round(value * 10) / 10 : Math.round(value))}/s`;
}

const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];

export function size(bytes) {
  if (bytes === null || bytes === undefined) return "–";
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

export const bytesRate = (value) => (value === null || value === undefined ? "–" : `${size(value)}/s`);

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 0.001) return `${Math.round(value * 1e6)} µs`;
  if (value < 1) return `${value < 0.01 ? (value * 1000).toFixed(1) : Math.round(value * 1000)} ms`;
  if (value < 90) return `${value < 10 ? value.toFixed(1) : Math.round(value)} s`;
  if (value < 5400) return `${Math.round(value / 60)} min`;
  if (value < 129_600) return `${Math.round(value / 3600)} h`;
  return `${Math.round(value / 86_400)} days`;
}

export const percent = (value) => (value === null || value === undefined ? "–" : `${Math.round(value * 100)} %`);

export function moment(milliseconds) {
  if (milliseconds === null || milliseconds === undefined || milliseconds < 0) return "–";
  const date = new Date(milliseconds);
  const pad = (number, width = 2) => String(number).padStart(width, "0");
  const day = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
  return `${day} ${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}.${pad(date.getMilliseconds(), 3)}`;
}

// The same without the day, where that is today.
export function clock(milliseconds) {
  const text = moment(milliseconds);
  return text.startsWith(moment(Date.now()).slice(0, 10)) ? text.slice(11) : text;
}

export function ago(milliseconds) {
  if (milliseconds === null || milliseconds === undefined || milliseconds < 0) return "–";
  const past = (Date.now() - milliseconds) / 1000;
  if (Math.abs(past) < 1) return "now";
  return past > 0 ? `${seconds(past)} ago` : `in ${seconds(-past)}`;
}

export const count = (number, word) => `${whole(number)} ${word}${number === 1 ? "" : "s"}`;

// For a shell: as it is where that is safe, else in quotes.
export const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${String(text).replaceAll("'", "'\\''")}'`);
