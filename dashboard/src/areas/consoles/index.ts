import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { shellRoute } from '~/app/roots';

export const KINDS = ['terminal', 'console', 'screen'] as const;
export type Kind = (typeof KINDS)[number];

const isKind = (value: unknown): value is Kind => KINDS.some((one) => one === value);

const consoleRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/machines/$serverId/$vmId',
  validateSearch: (search: Record<string, unknown>): { kind?: Kind } => (isKind(search['kind']) ? { kind: search['kind'] } : {}),
  component: lazyRouteComponent(() => import('./page'), 'ConsolePage'),
});

export const consoleRoutes = [consoleRoute] as const;
