// What a person is likely to open next is fetched while nothing else is to be done, so that a click need not wait.
import { useRouter } from '@tanstack/react-router';
import { useEffect } from 'react';

/** Routes, the likeliest first; the code of each is a few kilobytes. */
const LIKELY = [
  '/shell/catalog',
  '/shell/environments',
  '/shell/environments/$environmentId',
  '/shell/environments/$environmentId/',
  '/shell/environments/$environmentId/add/$packageId',
  '/shell/catalog/$packageId',
  '/shell/environments/$environmentId/deployments/$deploymentId',
  '/shell/packages',
] as const;
/** After the page itself has what it asks for. */
const LATER = 800;

interface Connection {
  saveData?: boolean;
}

const idle = (run: () => void) => (window.requestIdleCallback ? window.requestIdleCallback(run, { timeout: 5_000 }) : window.setTimeout(run, 200));

export function useAhead() {
  const router = useRouter();
  useEffect(() => {
    if ((navigator as { connection?: Connection }).connection?.saveData) return undefined;
    let over = false;
    const fetchAhead = async () => {
      for (const id of LIKELY) {
        if (over) return;
        // Without a connection it is fetched when it is wanted, and said then.
        await router.loadRouteChunk(router.routesById[id])?.catch(() => undefined);
      }
      // Its first tiles, too; they stay good for half a minute, and are shown while newer ones are fetched.
      if (!over) await router.preloadRoute({ to: '/catalog' }).catch(() => undefined);
    };
    const timer = window.setTimeout(() => idle(() => void fetchAhead()), LATER);
    return () => {
      over = true;
      window.clearTimeout(timer);
    };
  }, [router]);
}
