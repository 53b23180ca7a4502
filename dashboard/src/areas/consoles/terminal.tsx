import '@xterm/xterm/css/xterm.css';
import { FitAddon } from '@xterm/addon-fit';
import { Terminal as Xterm } from '@xterm/xterm';
import { getNonce } from 'get-nonce';
import { useEffect, useRef } from 'react';
import classes from './page.module.css';
import { openStream, watch, type Condition, type Machine } from './stream';

interface TerminalProps {
  kind: 'terminal' | 'console';
  machine: Machine;
  label: string;
  changed: (condition: Condition) => void;
}

/** Style elements made meanwhile carry the page's nonce: the terminal has no other way to get it. */
function withNonce(run: () => void) {
  const create = Document.prototype.createElement;
  const own = (name: string, options?: ElementCreationOptions) => {
    const made = create.call(document, name, options);
    if (made instanceof HTMLStyleElement) made.nonce = getNonce() ?? '';
    return made;
  };
  document.createElement = own as typeof document.createElement;
  try {
    run();
  } finally {
    delete (document as { createElement?: unknown }).createElement;
  }
}

/** A terminal, bound to a stream of a machine. A new `key` connects again. */
export function Terminal({ kind, machine: { serverId, vmId }, label, changed }: TerminalProps) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const holder = place.current;
    if (!holder) return undefined;
    const terminal = new Xterm({
      cursorBlink: true,
      fontFamily: "ui-monospace, 'SFMono-Regular', Menlo, 'DejaVu Sans Mono', monospace",
      fontSize: 14,
      scrollback: 5000,
      screenReaderMode: true,
      theme: { background: '#101417', foreground: '#dde3e7', cursor: '#52ccbc', selectionBackground: '#2b5a60' },
      // A console that only prints has line feeds where a terminal has line ends.
      convertEol: kind === 'console',
    });
    const fit = new FitAddon();
    terminal.loadAddon(fit);
    withNonce(() => terminal.open(holder));
    terminal.textarea?.setAttribute('aria-label', label);
    fit.fit();
    // Tab belongs to the shell; who has no mouse leaves with Shift+Tab.
    terminal.attachCustomKeyEventHandler((event) => !(event.key === 'Tab' && event.shiftKey));
    const socket = openStream(kind, { serverId, vmId });
    const encoder = new TextEncoder();
    const send = (data: string | Uint8Array<ArrayBuffer>) => {
      if (socket.readyState === WebSocket.OPEN) socket.send(data);
    };
    watch(socket, (condition) => {
      changed(condition);
      if (condition.told?.type === 'open') {
        terminal.options.disableStdin = !condition.told.interactive;
        send(JSON.stringify({ type: 'resize', columns: terminal.cols, rows: terminal.rows }));
        terminal.focus();
      }
    });
    socket.addEventListener('message', (event: MessageEvent<unknown>) => {
      if (event.data instanceof ArrayBuffer) terminal.write(new Uint8Array(event.data));
    });
    terminal.onData((text) => send(encoder.encode(text)));
    terminal.onBinary((text) => send(Uint8Array.from(text, (one) => one.charCodeAt(0))));
    terminal.onResize(({ cols, rows }) => send(JSON.stringify({ type: 'resize', columns: cols, rows })));
    const resized = new ResizeObserver(() => fit.fit());
    resized.observe(holder);
    return () => {
      resized.disconnect();
      socket.close();
      terminal.dispose();
    };
  }, [kind, serverId, vmId, label, changed]);
  return <div ref={place} className={classes.terminal} data-console />;
}
