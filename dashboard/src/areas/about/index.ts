import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { shellRoute } from '~/app/roots';

const aboutRoute = createRoute({ getParentRoute: () => shellRoute, path: '/about', component: lazyRouteComponent(() => import('./page'), 'About') });
const activityRoute = createRoute({ getParentRoute: () => shellRoute, path: '/history', component: lazyRouteComponent(() => import('./activity'), 'Activity') });

export const aboutRoutes = [aboutRoute, activityRoute] as const;
