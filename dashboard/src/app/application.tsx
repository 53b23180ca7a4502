import { DirectionProvider, MantineProvider, mergeThemeOverrides } from '@mantine/core';
import { Notifications } from '@mantine/notifications';
import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { lazy, Suspense, useEffect, useMemo, useState } from 'react';
import { onSessionOver, type DashboardSession } from '~/api/client';
import { directionOf, LanguageContext, preferredLanguage, storeLanguage, type Language } from '~/i18n';
import { messages as common } from '~/ui/messages';
import { queries } from './queries';
import { router } from './router';
import { sessionQuery } from './session';
import { theme, variables } from './theme';

const SignInAgain = lazy(() => import('~/areas/session/again').then((made) => ({ default: made.SignInAgain })));

export function Application({ nonce }: { nonce: string }) {
  const [language, setLanguage] = useState<Language>(preferredLanguage);
  const languages = useMemo(
    () => ({
      language,
      setLanguage: (chosen: Language) => {
        storeLanguage(chosen);
        setLanguage(chosen);
      },
    }),
    [language],
  );
  // Every cross says what it does, also those of notifications.
  const said = useMemo(() => mergeThemeOverrides(theme, { components: { CloseButton: { defaultProps: { 'aria-label': common[language].close } } } }), [language]);
  useEffect(() => {
    document.documentElement.lang = language;
    document.documentElement.dir = directionOf(language);
  }, [language]);
  // Whose session is over: the page stays, with what is typed in it, below a dialog to sign in again.
  const [over, setOver] = useState<DashboardSession>();
  const leave = () => {
    setOver(undefined);
    queries.clear();
    void router.navigate({ to: '/sign-in', search: { next: router.state.location.href, over: true }, ignoreBlocker: true });
  };
  useEffect(
    () =>
      onSessionOver(() => {
        if (router.state.location.pathname === '/sign-in') return;
        const known = queries.getQueryData(sessionQuery.queryKey);
        known ? setOver(known) : leave();
      }),
    [],
  );
  const same = (session: DashboardSession) => {
    queries.setQueryData(sessionQuery.queryKey, session);
    setOver(undefined);
    // Only what was refused: a form is made of what was read once, and would begin anew.
    void queries.invalidateQueries({ predicate: (one) => one.state.status === 'error' });
    void router.invalidate({ filter: (one) => one.status === 'error' });
  };
  const other = (session: DashboardSession) => {
    setOver(undefined);
    queries.clear();
    queries.setQueryData(sessionQuery.queryKey, session);
    void router.navigate({ to: '/environments', ignoreBlocker: true });
  };
  return (
    <LanguageContext.Provider value={languages}>
      <DirectionProvider key={directionOf(language)} initialDirection={directionOf(language)} detectDirection={false}>
      <MantineProvider theme={said} cssVariablesResolver={variables} defaultColorScheme="auto" getStyleNonce={() => nonce}>
        <QueryClientProvider client={queries}>
          <Notifications position="bottom-right" limit={4} />
          <RouterProvider router={router} />
          {over && (
            <Suspense fallback={null}>
              <SignInAgain before={over} onSame={same} onOther={other} onLeave={leave} />
            </Suspense>
          )}
        </QueryClientProvider>
      </MantineProvider>
      </DirectionProvider>
    </LanguageContext.Provider>
  );
}
