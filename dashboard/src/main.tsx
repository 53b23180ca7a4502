import '@fontsource-variable/inter/wght.css';
import '@mantine/core/styles.css';
import '@mantine/notifications/styles.css';
import './app/app.css';

import { setNonce } from 'get-nonce';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { Application } from './app/application';
import { router } from './app/router';

// Style elements that libraries make carry the page's nonce; nothing else inline is allowed.
const nonce = document.querySelector<HTMLMetaElement>('meta[name=csp-nonce]')?.content ?? '';
setNonce(nonce);

// The code of the page comes while the session is asked for, not after it.
for (const { routeId } of router.matchRoutes(router.latestLocation)) {
  const route = router.routesById[routeId as keyof typeof router.routesById];
  void router.loadRouteChunk(route);
}

createRoot(document.getElementById('root')!).render(
  <StrictMode>
    <Application nonce={nonce} />
  </StrictMode>,
);
