import { Card, Checkbox, Loader } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate, useParams } from '@tanstack/react-router';
import { useState } from 'react';
import { remember } from '~/app/recent';
import { useSession } from '~/app/session';
import { packageQuery } from '~/areas/catalog/queries';
import { definitionQuery } from '~/areas/definitions/queries';
import { ensuredQuery, environmentQuery, refreshEnvironment } from '~/areas/environment/queries';
import { useTexts } from '~/i18n';
import { Page, PageError } from '~/ui/page';
import { messages } from './messages';
import { Wizard } from './wizard';

/** Adds an application to an environment. */
export function AddApplication() {
  const { environmentId, packageId } = useParams({ from: '/shell/environments/$environmentId/add/$packageId' });
  const { data, error } = useQuery(packageQuery(packageId));
  return <Add environmentId={environmentId} name={data?.name} lead={data?.description} error={error} packageId={packageId} />;
}

/** Adds a service of the project's definitions to an environment. */
export function AddService() {
  const { environmentId, service } = useParams({ from: '/shell/environments/$environmentId/add-service/$service' });
  const { data, error } = useQuery(definitionQuery(service));
  return <Add environmentId={environmentId} name={data && (data.info.service_display_name ?? service)} lead={data?.info.description} error={error} service={service} />;
}

interface AddProps {
  environmentId: string;
  name: string | undefined;
  lead: string | undefined;
  error: Error | null;
  packageId?: string;
  service?: string;
}

function Add({ environmentId, name, lead, error, ...what }: AddProps) {
  const t = useTexts(messages);
  const navigate = useNavigate();
  const queries = useQueryClient();
  const { project } = useSession();
  const environment = useQuery(environmentQuery(environmentId));
  const session = useQuery(ensuredQuery(queries, environmentId));
  const failed = environment.error ?? error ?? session.error;
  const leave = () => void navigate({ to: '/environments/$environmentId', params: { environmentId } });
  const [goesOn, setGoesOn] = useState(false);
  const done = () => (goesOn ? void navigate({ to: '/catalog', search: { environment: environmentId } }) : leave());
  if (!environment.data || name === undefined || !session.data) return failed ? <PageError error={failed} /> : <Loader />;
  return (
    <Page
      title={t('title', { name })}
      lead={lead}
      path={[
        [t('environments'), '/environments'],
        [environment.data.name, `/environments/${environmentId}`],
      ]}
    >
      <Card maw={720}>
        <Wizard
          {...what}
          environmentId={environmentId}
          session={session.data}
          beforeEnd={what.packageId && <Checkbox label={t('goOn')} checked={goesOn} onChange={(event) => setGoesOn(event.currentTarget.checked)} />}
          onCancel={leave}
          onFinished={() => {
            if (what.packageId) remember(project.id, what.packageId);
            notifications.show({ message: t('finished', { name }) });
            void refreshEnvironment(queries, environmentId).then(done);
          }}
        />
      </Card>
    </Page>
  );
}
