import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '~/app/roots';

export const signInRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/sign-in',
  component: lazyRouteComponent(() => import('./page'), 'SignIn'),
  validateSearch: (search: Record<string, unknown>): { next?: string; over?: boolean } => ({
    ...(typeof search['next'] === 'string' ? { next: search['next'] } : {}),
    ...(search['over'] === true ? { over: true } : {}),
  }),
});
