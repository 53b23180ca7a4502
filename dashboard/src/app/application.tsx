import { DirectionProvider, MantineProvider, mergeThemeOverrides } from '@mantine/core';
import { Notifications } from '@mantine/notifications';
import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { useEffect, useMemo, useState } from 'react';
import { onSessionOver } from '~/api/client';
import { directionOf, LanguageContext, preferredLanguage, storeLanguage, type Language } from '~/i18n';
import { messages as common } from '~/ui/messages';
import { queries } from './queries';
import { router } from './router';
import { theme, variables } from './theme';

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
  useEffect(
    () =>
      onSessionOver(() => {
        const { pathname, href } = router.state.location;
        if (pathname === '/sign-in') return;
        queries.clear();
        void router.navigate({ to: '/sign-in', search: { next: href, over: true } });
      }),
    [],
  );
  return (
    <LanguageContext.Provider value={languages}>
      <DirectionProvider key={directionOf(language)} initialDirection={directionOf(language)} detectDirection={false}>
      <MantineProvider theme={said} cssVariablesResolver={variables} defaultColorScheme="auto" getStyleNonce={() => nonce}>
        <QueryClientProvider client={queries}>
          <Notifications position="bottom-right" limit={4} />
          <RouterProvider router={router} />
        </QueryClientProvider>
      </MantineProvider>
      </DirectionProvider>
    </LanguageContext.Provider>
  );
}
