import { useEffect, useRef, useState } from 'react';
import { API, type Catalog } from './client';

export type Report = Catalog['Report'];

export interface Followed {
  reports: Report[];
  state: string | null;
  waitingOn: string | null;
  ended: boolean;
  /** The connection is lost; it is made again by itself, and goes on after the last report. */
  lost: boolean;
}

const NOTHING: Followed = { reports: [], state: null, waitingOn: null, ended: false, lost: false };

/** Follows a deployment by server-sent events. Many reports at once are shown together. */
export function useDeployment(environment: string, deployment: string | undefined, onEnd?: () => void): Followed {
  const [followed, setFollowed] = useState(NOTHING);
  const ended = useRef(onEnd);
  ended.current = onEnd;
  useEffect(() => {
    setFollowed(NOTHING);
    if (!deployment) return undefined;
    let next = NOTHING;
    let drawing = 0;
    const change = (by: Partial<Followed>) => {
      next = { ...next, ...by };
      drawing ||= window.setTimeout(() => {
        drawing = 0;
        setFollowed(next);
      }, 60);
    };
    const source = new EventSource(`${API}/v1/environments/${environment}/deployments/${deployment}/events`);
    const seen = new Set<string>();
    let waiting: Report[] = [];
    source.addEventListener('report', (event) => {
      const report = JSON.parse((event as MessageEvent<string>).data) as Report;
      if (seen.has(report.id)) return;
      seen.add(report.id);
      waiting.push(report);
      if (waiting.length === 1) {
        queueMicrotask(() => {
          change({ reports: [...next.reports, ...waiting] });
          waiting = [];
        });
      }
    });
    source.addEventListener('state', (event) => change({ state: (JSON.parse((event as MessageEvent<string>).data) as { state: string }).state }));
    source.addEventListener('waiting', (event) => change({ waitingOn: (JSON.parse((event as MessageEvent<string>).data) as { waiting_on: string | null }).waiting_on }));
    source.addEventListener('end', (event) => {
      source.close();
      change({ ended: true, waitingOn: null, lost: false, state: (JSON.parse((event as MessageEvent<string>).data) as { state: string }).state });
      ended.current?.();
    });
    source.onopen = () => change({ lost: false });
    source.onerror = () => change({ lost: true });
    return () => {
      source.close();
      window.clearTimeout(drawing);
    };
  }, [environment, deployment]);
  return followed;
}
