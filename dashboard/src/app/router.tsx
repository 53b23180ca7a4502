// The routes of all areas. Each area declares its own below `shellRoute`, and what it shows in the navigation.
import { createRoute, createRouter, redirect } from '@tanstack/react-router';
import { aboutRoutes } from '~/areas/about';
import { administrationRoutes } from '~/areas/administration';
import { catalogRoutes } from '~/areas/catalog';
import { consoleRoutes } from '~/areas/consoles';
import { definitionRoutes } from '~/areas/definitions';
import { environmentRoutes } from '~/areas/environment';
import { machineRoutes } from '~/areas/machines';
import { packagesRoutes } from '~/areas/packages';
import { signInRoute } from '~/areas/session';
import { templateRoutes } from '~/areas/templates';
import { PageMissing } from '~/ui/page';
import { queries } from './queries';
import { rootRoute, shellRoute } from './roots';

const homeRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/',
  beforeLoad: () => {
    throw redirect({ to: '/environments' });
  },
});

// An address that no page has: the navigation stays, so that one can go on.
const missingRoute = createRoute({ getParentRoute: () => shellRoute, path: '$', component: PageMissing });

const tree = rootRoute.addChildren([signInRoute, shellRoute.addChildren([homeRoute, missingRoute, ...environmentRoutes, ...catalogRoutes, ...machineRoutes, ...consoleRoutes, ...packagesRoutes, ...definitionRoutes, ...templateRoutes, ...administrationRoutes, ...aboutRoutes])]);

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
