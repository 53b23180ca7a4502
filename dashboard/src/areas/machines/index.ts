import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { shellRoute } from '~/app/roots';
import { serversQuery } from './queries';

export const TABS = ['instances', 'nodes', 'images', 'networks', 'tickets', 'quotas', 'placement'] as const;
export type Tab = (typeof TABS)[number];

const isTab = (value: unknown): value is Tab => TABS.some((one) => one === value);

export const machinesRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/machines',
  validateSearch: (search: Record<string, unknown>): { tab?: Tab } => (isTab(search['tab']) ? { tab: search['tab'] } : {}),
  loader: ({ context }) => context.queries.ensureQueryData(serversQuery),
  component: lazyRouteComponent(() => import('./page'), 'Machines'),
});

export const machineRoutes = [machinesRoute] as const;
