import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { shellRoute } from '~/app/roots';
import { environmentsQuery } from './queries';

export const listRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/environments',
  validateSearch: (search: Record<string, unknown>): { create?: boolean } => (search['create'] === true ? { create: true } : {}),
  loader: ({ context }) => context.queries.ensureQueryData(environmentsQuery),
  component: lazyRouteComponent(() => import('./list'), 'EnvironmentList'),
});

export const environmentRoutes = [listRoute] as const;
