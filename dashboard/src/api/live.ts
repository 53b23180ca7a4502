// What changes at the service reaches the pages by itself: one stream of events for each tab in sight.
import { useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { API } from './client';

const AGAIN = 5_000;
const SELDOM = 60_000;
/** Many changes at once are read once. */
const TOGETHER = 300;

let connected = false;

/** How often to ask for what the stream tells of: seldom while there is one. */
export const unlessLive = (milliseconds: number) => (connected ? SELDOM : milliseconds);

/** Reads environments of the project anew when they change, and all of them after a break. */
export function useLive() {
  const queries = useQueryClient();
  useEffect(() => {
    let source: EventSource | undefined;
    let retry = 0;
    let timer = 0;
    let all = false;
    const changed = new Set<string>();
    const read = () => {
      timer = 0;
      const shown = ({ queryKey: [kind, id] }: { queryKey: readonly unknown[] }) => kind === 'environments' || (kind === 'environment' && (all || changed.has(String(id))));
      void queries.invalidateQueries({ predicate: shown });
      changed.clear();
      all = false;
    };
    const later = () => {
      timer ||= window.setTimeout(read, TOGETHER);
    };
    const close = () => {
      source?.close();
      source = undefined;
      connected = false;
      window.clearTimeout(retry);
    };
    const open = () => {
      close();
      // A browser has six connections to a service: tabs that nobody looks at leave them to the others.
      if (document.hidden) return;
      source = new EventSource(`${API}/v1/events`);
      source.addEventListener('begin', () => {
        connected = true;
        all = true;
        later();
      });
      source.addEventListener('changed', (event) => {
        changed.add((JSON.parse((event as MessageEvent<string>).data) as { id: string }).id);
        later();
      });
      source.onerror = () => {
        connected = false;
        if (source?.readyState === EventSource.CLOSED) retry = window.setTimeout(open, AGAIN);
      };
    };
    open();
    document.addEventListener('visibilitychange', open);
    return () => {
      document.removeEventListener('visibilitychange', open);
      window.clearTimeout(timer);
      close();
    };
  }, [queries]);
}
