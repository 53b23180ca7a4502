// Streams of machines over a web socket: what the service says of one, and its address (`vetro.http.dashboard.consoles`).
import { API } from '~/api/client';
import type { Kind } from './index';

export interface Machine {
  serverId: string;
  vmId: string;
}

export type Told = { type: 'open'; interactive: boolean } | { type: 'end'; code: number } | { type: 'error'; message: string };
/** How a stream is: `told` is the last thing the service said of it, `lost` that it said nothing at the end. */
export interface Condition {
  told?: Told;
  lost?: boolean;
}

export function openStream(kind: Kind, { serverId, vmId }: Machine): WebSocket {
  const address = new URL(`${API}/streams/${kind}/${encodeURIComponent(serverId)}/${encodeURIComponent(vmId)}`, window.location.href);
  address.protocol = address.protocol === 'https:' ? 'wss:' : 'ws:';
  const socket = new WebSocket(address);
  socket.binaryType = 'arraybuffer';
  return socket;
}

/** Tells how the stream is, until it ends. Bytes are for who draws them. */
export function watch(socket: WebSocket, changed: (condition: Condition) => void): void {
  let told: Told | undefined;
  socket.addEventListener('message', (event: MessageEvent<unknown>) => {
    if (typeof event.data !== 'string') return;
    told = JSON.parse(event.data) as Told;
    changed({ told });
  });
  socket.addEventListener('close', () => {
    if (!told || told.type === 'open') changed({ lost: true });
  });
}
