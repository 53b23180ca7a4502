import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { shellRoute } from '~/app/roots';
import { definitionsQuery } from './queries';

const listRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/definitions',
  loader: ({ context }) => context.queries.ensureQueryData(definitionsQuery),
  component: lazyRouteComponent(() => import('./list'), 'Definitions'),
});

const editRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/definitions/$name',
  validateSearch: (search: Record<string, unknown>): { file?: string } => (typeof search['file'] === 'string' ? { file: search['file'] } : {}),
  component: lazyRouteComponent(() => import('./page'), 'DefinitionPage'),
});

export const definitionRoutes = [listRoute, editRoute] as const;
