import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { shellRoute } from '~/app/roots';

const templatesRoute = createRoute({ getParentRoute: () => shellRoute, path: '/templates', component: lazyRouteComponent(() => import('./list'), 'Templates') });
const templateRoute = createRoute({ getParentRoute: () => shellRoute, path: '/templates/$templateId', component: lazyRouteComponent(() => import('./page'), 'TemplatePage') });

export const templateRoutes = [templatesRoute, templateRoute] as const;
