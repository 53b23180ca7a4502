import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { shellRoute } from '~/app/roots';
import { applicationsQuery } from './queries';

type Wanted = { search?: string; category?: string; tag?: string; environment?: string };
const TEXTS = ['search', 'category', 'tag', 'environment'] as const;

export const catalogRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/catalog',
  validateSearch: (search: Record<string, unknown>): Wanted => Object.fromEntries(TEXTS.flatMap((name) => (typeof search[name] === 'string' && search[name] ? [[name, search[name]]] : []))),
  loaderDeps: ({ search: { search, category, tag } }) => ({ search, category, tag }),
  // Asked for together with the code of the page, which shows where tiles will be.
  loader: ({ context, deps }) => void context.queries.prefetchInfiniteQuery(applicationsQuery(deps)),
  component: lazyRouteComponent(() => import('./browse'), 'Browse'),
});

export const packageRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/catalog/$packageId',
  validateSearch: (search: Record<string, unknown>): { environment?: string; deploy?: boolean } => ({
    ...(typeof search['environment'] === 'string' ? { environment: search['environment'] } : {}),
    ...(search['deploy'] === true ? { deploy: true } : {}),
  }),
  component: lazyRouteComponent(() => import('./package'), 'PackagePage'),
});

export const catalogRoutes = [catalogRoute, packageRoute] as const;
