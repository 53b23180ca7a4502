import { Card, Loader, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { useEffect, useRef, useState } from 'react';
import { API, catalogApi, CSRF, data } from '~/api/client';
import { remember } from '~/app/recent';
import { useSession } from '~/app/session';
import { makeEnvironment, nextName } from '~/areas/catalog/making';
import { packageQuery } from '~/areas/catalog/queries';
import { remove } from '~/areas/environment/many';
import { environmentsQuery, refreshEnvironment } from '~/areas/environment/queries';
import { useTexts } from '~/i18n';
import { Around, useLeaving } from '~/ui/leaving';
import { Page, PageError } from '~/ui/page';
import { messages } from './messages';
import { Wizard, type Place } from './wizard';

/**
 * Fills in the form of an application for an environment that is made when the form is complete.
 *
 * A component that another field needs is made before: then there is an environment already, and it
 * goes again when the form is left, also by closing the window.
 */
export function QuickDeploy() {
  const t = useTexts(messages);
  const { packageId } = useParams({ from: '/shell/catalog/$packageId/deploy' });
  const { name: wanted = '' } = useSearch({ from: '/shell/catalog/$packageId/deploy' });
  const navigate = useNavigate();
  const queries = useQueryClient();
  const { project } = useSession();
  const shown = useQuery(packageQuery(packageId));
  const { data: environments } = useQuery(environmentsQuery);
  const [name, setName] = useState(wanted);
  const [place, setPlace] = useState<Place>();
  const made = useRef<Place>(undefined);
  const finished = useRef(false);
  const form = useLeaving({ links: true });

  const make = async (): Promise<Place> => {
    if (made.current) return made.current;
    const { id, name: given } = await makeEnvironment(name, (environments ?? []).map((one) => one.name));
    const opened = await data(catalogApi.POST('/v1/environments/{environment_id}/configure', { params: { path: { environment_id: id } } }));
    made.current = { environmentId: id, session: opened.id };
    setPlace(made.current);
    setName(given);
    return made.current;
  };
  /** Forgets the environment that was made for this. */
  const unmake = async () => {
    const known = made.current;
    if (!known || finished.current) return;
    made.current = undefined;
    setPlace(undefined);
    await remove(known.environmentId, false).catch(() => undefined); // then it is in the list, to be removed there
    await queries.invalidateQueries({ queryKey: environmentsQuery.queryKey });
  };
  const leaving = useRef(unmake);
  leaving.current = unmake;
  useEffect(() => {
    // A window that is closed waits for no answer.
    const gone = () => {
      if (made.current && !finished.current) void fetch(`${API}/v1/environments/${made.current.environmentId}`, { method: 'DELETE', headers: CSRF, keepalive: true });
    };
    window.addEventListener('pagehide', gone);
    return () => {
      window.removeEventListener('pagehide', gone);
      void leaving.current();
    };
  }, []);

  if (shown.isLoadingError) return <PageError error={shown.error} reset={() => void shown.refetch()} />;
  if (!shown.data || !environments) return <Loader />;
  const application = shown.data;
  return (
    <Page title={t('quickTitle', { name: application.name })} lead={t('quickLead')} path={[[t('catalog'), '/catalog'], [application.name, `/catalog/${packageId}`]]}>
      <Card maw={720}>
        <TextInput mb="md" label={t('quickName')} placeholder={nextName(environments.map((one) => one.name))} maxLength={255} disabled={place !== undefined} value={name} onChange={(event) => setName(event.currentTarget.value)} onInput={form.changed} />
        {form.question}
        <Around value={form.changed}>
          <Wizard
            packageId={packageId}
            {...(place ?? {})}
            make={make}
            unmake={unmake}
            onCancel={() => {
              form.done();
              void navigate({ to: '/catalog' });
            }}
            onFinished={() => {
              form.done();
              finished.current = true;
              remember(project.id, packageId);
              notifications.show({ message: t('finished', { name: application.name }) });
              const at = made.current?.environmentId ?? '';
              void refreshEnvironment(queries, at).then(() => navigate({ to: '/environments/$environmentId', params: { environmentId: at } }));
            }}
          />
        </Around>
      </Card>
    </Page>
  );
}
