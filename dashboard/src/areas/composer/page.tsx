import { Card, Loader } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { remember } from '~/app/recent';
import { useSession } from '~/app/session';
import { packageQuery } from '~/areas/catalog/queries';
import { definitionQuery } from '~/areas/definitions/queries';
import { remove } from '~/areas/environment/many';
import { ensureSession, environmentQuery, environmentsQuery, refreshEnvironment } from '~/areas/environment/queries';
import { useTexts } from '~/i18n';
import { Page, PageError } from '~/ui/page';
import { messages } from './messages';
import { Wizard } from './wizard';

/** Adds an application to an environment. */
export function AddApplication() {
  const { environmentId, packageId } = useParams({ from: '/shell/environments/$environmentId/add/$packageId' });
  const { made } = useSearch({ from: '/shell/environments/$environmentId/add/$packageId' });
  const { data, error } = useQuery(packageQuery(packageId));
  return <Add environmentId={environmentId} name={data?.name} lead={data?.description} error={error} packageId={packageId} made={made ?? false} />;
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
  /** The environment was made for this: it goes when nothing is put into it. */
  made?: boolean;
}

function Add({ environmentId, name, lead, error, made = false, ...what }: AddProps) {
  const t = useTexts(messages);
  const navigate = useNavigate();
  const queries = useQueryClient();
  const { project } = useSession();
  const environment = useQuery(environmentQuery(environmentId));
  const session = useQuery({ queryKey: ['environment', environmentId, 'ensured'], queryFn: () => ensureSession(queries, environmentId), staleTime: Infinity, gcTime: 0 });
  const failed = environment.error ?? error ?? session.error;
  const leave = () => void navigate({ to: '/environments/$environmentId', params: { environmentId } });
  const cancel = async () => {
    if (!made || !session.data) return leave();
    const now = await queries.fetchQuery({ ...environmentQuery(environmentId, session.data), staleTime: 0 });
    if (now.version > 0 || now.services.length > 0) return leave();
    await remove(environmentId, false).catch(() => undefined); // then it is in the list, to be removed there
    await queries.invalidateQueries({ queryKey: environmentsQuery.queryKey });
    await navigate({ to: '/catalog' });
  };
  if (failed) return <PageError error={failed} />;
  if (!environment.data || name === undefined || !session.data) return <Loader />;
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
          onCancel={() => void cancel()}
          onFinished={() => {
            if (what.packageId) remember(project.id, what.packageId);
            notifications.show({ message: t('finished', { name }) });
            void refreshEnvironment(queries, environmentId).then(leave);
          }}
        />
      </Card>
    </Page>
  );
}
