import { createRoute, lazyRouteComponent, redirect } from '@tanstack/react-router';
import { shellRoute } from '~/app/roots';
import { sessionQuery } from '~/app/session';
import { rememberCurrent } from './current';
import { applicationsQuery } from './queries';

type Wanted = { search?: string; category?: string; tag?: string; environment?: string; next?: string };
const TEXTS = ['search', 'category', 'tag', 'environment', 'next'] as const;
const HERE = '/dashboard';

export const catalogRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/catalog',
  validateSearch: (search: Record<string, unknown>): Wanted => Object.fromEntries(TEXTS.flatMap((name) => (typeof search[name] === 'string' && search[name] ? [[name, search[name]]] : []))),
  // A bookmark that chose an environment, and then led on to another page of this dashboard.
  beforeLoad: ({ context, search: { environment, next = '' } }) => {
    if (!environment || !next.startsWith(`${HERE}/`) || next.startsWith(`${HERE}//`)) return;
    const project = context.queries.getQueryData(sessionQuery.queryKey)?.project.id;
    if (project) rememberCurrent(project, environment);
    throw redirect({ href: next.slice(HERE.length) });
  },
  loaderDeps: ({ search: { search, category, tag } }) => ({ search, category, tag }),
  // Asked for together with the code of the page, which shows where tiles will be.
  loader: ({ context, deps }) => void context.queries.prefetchInfiniteQuery(applicationsQuery(deps)),
  component: lazyRouteComponent(() => import('./browse'), 'Browse'),
});

export const packageRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/catalog/$packageId',
  validateSearch: (search: Record<string, unknown>): { environment?: string } => (typeof search['environment'] === 'string' ? { environment: search['environment'] } : {}),
  component: lazyRouteComponent(() => import('./package'), 'PackagePage'),
});

export const quickRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/catalog/$packageId/deploy',
  validateSearch: (search: Record<string, unknown>): { name?: string } => (typeof search['name'] === 'string' ? { name: search['name'] } : {}),
  component: lazyRouteComponent(() => import('../composer/quick'), 'QuickDeploy'),
});

export const catalogRoutes = [catalogRoute, packageRoute, quickRoute] as const;
