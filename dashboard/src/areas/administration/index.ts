import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { shellRoute } from '~/app/roots';

export const TABS = ['users', 'projects'] as const;
export type Tab = (typeof TABS)[number];

const peopleRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/people',
  validateSearch: (search: Record<string, unknown>): { tab?: Tab } => (search['tab'] === 'projects' ? { tab: 'projects' } : {}),
  component: lazyRouteComponent(() => import('./page'), 'People'),
});

export const administrationRoutes = [peopleRoute] as const;
