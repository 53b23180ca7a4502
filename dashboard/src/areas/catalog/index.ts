import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { shellRoute } from '~/app/roots';

export const catalogRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/catalog',
  validateSearch: (search: Record<string, unknown>): { search?: string; category?: string; tag?: string; environment?: string } =>
    Object.fromEntries(['search', 'category', 'tag', 'environment'].flatMap((name) => (typeof search[name] === 'string' && search[name] ? [[name, search[name]]] : []))),
  component: lazyRouteComponent(() => import('./browse'), 'Browse'),
});

export const catalogRoutes = [catalogRoute] as const;
