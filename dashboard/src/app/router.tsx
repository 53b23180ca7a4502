// The routes of all areas. Each area declares its own below `shellRoute`, and what it shows in the navigation.
import { createRoute, createRouter, redirect } from '@tanstack/react-router';
import { catalogRoutes } from '~/areas/catalog';
import { environmentRoutes } from '~/areas/environment';
import { machineRoutes } from '~/areas/machines';
import { signInRoute } from '~/areas/session';
import { queries } from './queries';
import { rootRoute, shellRoute } from './roots';

const homeRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/',
  beforeLoad: () => {
    throw redirect({ to: '/environments' });
  },
});

const tree = rootRoute.addChildren([signInRoute, shellRoute.addChildren([homeRoute, ...environmentRoutes, ...catalogRoutes, ...machineRoutes])]);

export const router = createRouter({
  routeTree: tree,
  basepath: '/dashboard',
  context: { queries },
  defaultPreload: 'intent',
  defaultPreloadStaleTime: 0,
  scrollRestoration: true,
});

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}
