// The cluster as it changes: one stream for the whole page, and whoever wants to know.

const listeners = new Set();
let source = null;
let newest = null;

export function begin() {
  if (source) return;
  source = new EventSource("/console/api/live");
  source.onmessage = (event) => {
    newest = JSON.parse(event.data);
    for (const listener of listeners) listener(newest);
  };
  source.onerror = () => {
    for (const listener of listeners) listener(null);
    // A browser tries again by itself unless it was refused.
    if (source?.readyState === EventSource.CLOSED) {
      end();
      setTimeout(begin, 2000);
    }
  };
}

export function end() {
  source?.close();
  source = null;
}

// Called with what is known now, with every newer overview, and with null while the stream is broken; answers how to stop that.
export function watch(listener) {
  listeners.add(listener);
  if (newest) listener(newest);
  return () => listeners.delete(listener);
}
