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

export const environmentRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/environments/$environmentId',
  component: lazyRouteComponent(() => import('./frame'), 'EnvironmentFrame'),
});

const child = <const Path extends string>(path: Path) => ({ getParentRoute: () => environmentRoute, path });

const componentsRoute = createRoute({ ...child('/'), component: lazyRouteComponent(() => import('./components'), 'Components') });
const componentRoute = createRoute({ ...child('components/$componentId'), component: lazyRouteComponent(() => import('./component'), 'ComponentPage') });
const historyRoute = createRoute({ ...child('history'), component: lazyRouteComponent(() => import('./history'), 'History') });
const deploymentRoute = createRoute({ ...child('deployments/$deploymentId'), component: lazyRouteComponent(() => import('./deployment'), 'DeploymentPage') });
const logRoute = createRoute({ ...child('log'), component: lazyRouteComponent(() => import('./deployment'), 'LatestLog') });
const modelRoute = createRoute({ ...child('model'), component: lazyRouteComponent(() => import('./model'), 'Model') });
const topologyRoute = createRoute({ ...child('topology'), component: lazyRouteComponent(() => import('../topology/page'), 'TopologyPage') });

export const addRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/environments/$environmentId/add/$packageId',
  component: lazyRouteComponent(() => import('../composer/page'), 'AddApplication'),
});

export const addServiceRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/environments/$environmentId/add-service/$service',
  component: lazyRouteComponent(() => import('../composer/page'), 'AddService'),
});

export const editRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: '/environments/$environmentId/edit/$componentId',
  component: lazyRouteComponent(() => import('../composer/edit'), 'EditComponent'),
});

export const environmentRoutes = [
  listRoute,
  addRoute,
  addServiceRoute,
  editRoute,
  environmentRoute.addChildren([componentsRoute, componentRoute, historyRoute, logRoute, deploymentRoute, modelRoute, topologyRoute]),
] as const;
