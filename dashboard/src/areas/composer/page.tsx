import { Card, Loader } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate, useParams } from '@tanstack/react-router';
import { packageQuery } from '~/areas/catalog/queries';
import { ensureSession, environmentQuery, refreshEnvironment } from '~/areas/environment/queries';
import { useTexts } from '~/i18n';
import { Page, PageError } from '~/ui/page';
import { messages } from './messages';
import { Wizard } from './wizard';

/** Adds an application to an environment. */
export function AddApplication() {
  const t = useTexts(messages);
  const { environmentId, packageId } = useParams({ from: '/shell/environments/$environmentId/add/$packageId' });
  const navigate = useNavigate();
  const queries = useQueryClient();
  const environment = useQuery(environmentQuery(environmentId));
  const application = useQuery(packageQuery(packageId));
  const session = useQuery({ queryKey: ['environment', environmentId, 'ensured'], queryFn: () => ensureSession(queries, environmentId), staleTime: Infinity, gcTime: 0 });
  const error = environment.error ?? application.error ?? session.error;
  const leave = () => void navigate({ to: '/environments/$environmentId', params: { environmentId } });
  if (error) return <PageError error={error} />;
  if (!environment.data || !application.data || !session.data) return <Loader />;
  return (
    <Page
      title={t('title', { name: application.data.name })}
      lead={application.data.description}
      path={[
        [t('environments'), '/environments'],
        [environment.data.name, `/environments/${environmentId}`],
      ]}
    >
      <Card maw={720}>
        <Wizard
          packageId={packageId}
          environmentId={environmentId}
          session={session.data}
          onCancel={leave}
          onFinished={() => {
            notifications.show({ message: t('finished', { name: application.data.name }) });
            void refreshEnvironment(queries, environmentId).then(leave);
          }}
        />
      </Card>
    </Page>
  );
}
