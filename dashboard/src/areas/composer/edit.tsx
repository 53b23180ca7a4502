import { Card, Loader } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate, useParams } from '@tanstack/react-router';
import { ensuredQuery, environmentQuery, nameOf, refreshEnvironment, type Component } from '~/areas/environment/queries';
import { useTexts } from '~/i18n';
import { Page, PageError } from '~/ui/page';
import { messages } from './messages';
import { Wizard } from './wizard';

/** Opens the form of a component, with what the component has now. */
export function EditComponent() {
  const t = useTexts(messages);
  const { environmentId, componentId } = useParams({ from: '/shell/environments/$environmentId/edit/$componentId' });
  const navigate = useNavigate();
  const queries = useQueryClient();
  const session = useQuery(ensuredQuery(queries, environmentId));
  const environment = useQuery({ ...environmentQuery(environmentId, session.data), enabled: session.data !== undefined });
  const error = environment.error ?? session.error;
  if (!environment.data || !session.data) return error ? <PageError error={error} /> : <Loader />;
  const component = (environment.data.services as unknown as Component[]).find((one) => one['?'].id === componentId);
  const name = component ? nameOf(component) : componentId;
  const leave = () => void navigate({ to: '/environments/$environmentId', params: { environmentId } });
  return (
    <Page
      title={t('editTitle', { name })}
      path={[
        [t('environments'), '/environments'],
        [environment.data.name, `/environments/${environmentId}`],
      ]}
    >
      <Card maw={720}>
        <Wizard
          componentId={componentId}
          environmentId={environmentId}
          session={session.data}
          onCancel={leave}
          onFinished={(_, changed) => {
            notifications.show({ message: t(changed ? 'saved' : 'unchanged', { name }) });
            void refreshEnvironment(queries, environmentId).then(leave);
          }}
        />
      </Card>
    </Page>
  );
}
