import { Alert, Button, Group, Loader, Progress, Stack, Text, Title } from '@mantine/core';
import { IconForms } from '@tabler/icons-react';
import { replaceEqualDeep, useQuery, useQueryClient } from '@tanstack/react-query';
import { lazy, Suspense, useCallback, useEffect, useRef, useState, type ReactNode } from 'react';
import { ApiError, catalogApi, data, type Catalog } from '~/api/client';
import { ensureSession } from '~/areas/environment/queries';
import { useLanguage, useTexts } from '~/i18n';
import { useExplained } from '~/ui/failure';
import { Around, FormDialog, useLeaving } from '~/ui/leaving';
import { Empty, PageError } from '~/ui/page';
import { Field } from './field';
import { messages } from './messages';
import { textsOf } from './order';

const Bars = lazy(() => import('./quota').then((made) => ({ default: made.QuotaBars })));

export type FormField = Catalog['FormField'];
export type FormPage = Catalog['FormPage'];
type Errors = Record<string, string[]>;
type Values = Record<string, unknown>;

export interface Component {
  '?': { id: string; type: string; name?: string };
  name?: string;
  [property: string]: unknown;
}

interface WizardProps {
  /** A package to make a component of, or a component whose form is opened again. */
  packageId?: string;
  /** A service of the project's definitions instead of a package. */
  service?: string;
  componentId?: string;
  environmentId?: string;
  session?: string;
  /** The template that it is for: object fields offer its components. */
  templateId?: string;
  /** Where the component goes instead of an environment. */
  deliver?: (model: Record<string, unknown>) => Promise<unknown>;
  /** For an environment that is not there yet: makes it, when it is needed first. */
  make?: () => Promise<Place>;
  /** Forgets that environment, when nothing could be put into it. */
  unmake?: () => Promise<void>;
  /** Beside the button that ends the form. */
  beforeEnd?: ReactNode;
  /** `changed`: whether anything of a component differs now. */
  onFinished: (component: Component, changed: boolean) => void;
  onCancel: () => void;
}

/** Where a component goes. */
export interface Place {
  environmentId: string;
  session: string;
}

const headerOf = (session: string | undefined) => (session ? { 'X-Configuration-Session': session } : {});

const CHECK_AFTER = 350;

/** Fills in a package's form, page after page; the service validates while one types. */
export function Wizard({ packageId, service, componentId, environmentId, session, templateId, deliver, make, unmake, beforeEnd, onFinished, onCancel }: WizardProps) {
  const { language } = useLanguage();
  const begun = useQuery({
    // One that begins without an environment goes on when there is one.
    queryKey: ['wizard', packageId, service, componentId, make ? '' : environmentId, make ? '' : session, templateId],
    queryFn: () =>
      data(catalogApi.POST('/v1/wizards', { params: { header: headerOf(session), query: { language } }, body: { ...(componentId ? { component_id: componentId } : service ? { service } : { package: packageId ?? '' }), ...(environmentId && session && !make ? { environment_id: environmentId, session_id: session } : {}), ...(templateId ? { template_id: templateId } : {}), quick: true } })),
    staleTime: Infinity,
    gcTime: 0,
  });
  if (componentId && begun.error instanceof ApiError && begun.error.status === 404) return <NoForm why={begun.error.message} />;
  if (begun.isLoadingError) return <PageError error={begun.error} reset={() => void begun.refetch()} />;
  if (!begun.data) return <Loader aria-label="…" />;
  return <Pages key={begun.data.id} wizard={begun.data} session={session} language={language} environmentId={environmentId} templateId={templateId} changes={componentId !== undefined} deliver={deliver} make={make} unmake={unmake} beforeEnd={beforeEnd} onFinished={onFinished} onCancel={onCancel} />;
}

function NoForm({ why }: { why: string }) {
  const t = useTexts(messages);
  return (
    <Empty icon={IconForms} title={t('noForm')}>
      {why}
    </Empty>
  );
}

interface PagesProps {
  wizard: Catalog['Wizard'];
  session: string | undefined;
  language: string;
  environmentId: string | undefined;
  templateId: string | undefined;
  changes: boolean;
  deliver: ((model: Record<string, unknown>) => Promise<unknown>) | undefined;
  make: (() => Promise<Place>) | undefined;
  unmake: (() => Promise<void>) | undefined;
  beforeEnd: ReactNode;
  onFinished: (component: Component, changed: boolean) => void;
  onCancel: () => void;
}

function Pages({ wizard, session, language, environmentId, templateId, changes, deliver, make, unmake, beforeEnd, ...ends }: PagesProps) {
  const leaving = useLeaving({ links: true });
  const onFinished = (component: Component, changed = true) => {
    leaving.done();
    ends.onFinished(component, changed);
  };
  const onCancel = () => {
    leaving.done();
    ends.onCancel();
  };
  const t = useTexts(messages);
  const explained = useExplained();
  const queries = useQueryClient();
  const count = wizard.form.pages.length;
  const [page, setPage] = useState<FormPage | undefined>(wizard.form.pages[0]);
  const [values, setValues] = useState<Values>(() => valuesOf(wizard.form.pages[0]));
  const [touched, setTouched] = useState<Set<string>>(new Set());
  const [errors, setErrors] = useState<Errors>({});
  const [problem, setProblem] = useState('');
  const [busy, setBusy] = useState(false);
  const [nested, setNested] = useState<{ field: FormField; packageId: string; name: string } | null>(null);
  // Components that were made for fields of a form that began without an environment: the service does not offer them.
  const [made, setMade] = useState<Record<string, { value: string; label: string }[]>>({});
  const form = useRef<HTMLFormElement>(null);
  const checking = useRef<AbortController>(undefined);
  // What the keyboard goes to when the page is drawn as it was answered: the next frame may come before that.
  const [toFocus, setToFocus] = useState<{ first: string }>();
  useEffect(() => {
    if (toFocus) form.current?.querySelector<HTMLElement>(toFocus.first)?.focus();
  }, [toFocus]);
  const failed = async (error: unknown) => {
    if (!(error instanceof ApiError) || error.more['type'] !== 'WizardNotFound') return setProblem(explained(error).text);
    const deleted = environmentId && (await data(catalogApi.GET('/v1/environments/{environment_id}', { params: { path: { environment_id: environmentId } } })).then(() => false, (missing: unknown) => missing instanceof ApiError && missing.status === 404));
    setProblem(t(deleted ? 'overDeleted' : 'over'));
  };
  const params = { header: headerOf(session), query: { language } };
  const name = page?.name ?? '';

  // Live validation: the newest question wins, and only what was touched is complained about.
  useEffect(() => {
    if (!page || touched.size === 0) return undefined;
    const stop = (checking.current = new AbortController());
    const timer = setTimeout(() => {
      data(catalogApi.POST('/v1/wizards/{wizard_id}/pages/{page}/check', { params: { path: { wizard_id: wizard.id, page: name }, ...params }, body: { values: values as Record<string, never> }, signal: stop.signal }))
        .then((answer) => {
          if (stop.signal.aborted) return;
          // What is as before stays the same object, so that only fields that changed are drawn.
          setErrors((was) => replaceEqualDeep(was, answer.errors) as Errors);
          setPage((was) => replaceEqualDeep(was, answer.page) as FormPage);
        })
        .catch(() => undefined); // what is wrong is said when the page is sent
    }, CHECK_AFTER);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [values, touched]);

  const show = (next: FormPage) => {
    // An answer about the page that is left may come before this one is drawn: it would bring that page back.
    checking.current?.abort();
    setPage(next);
    setValues(valuesOf(next));
    setTouched(new Set());
    setErrors({});
    setProblem('');
    setToFocus({ first: 'input:not([type=hidden]), select, textarea' });
  };
  const finish = async () => {
    const at = make ? await make() : environmentId && session ? { environmentId, session } : undefined;
    if (deliver || !at) {
      const { model } = await data(catalogApi.POST('/v1/wizards/{wizard_id}/build', { params: { path: { wizard_id: wizard.id }, header: headerOf(session) } }));
      await deliver?.(model as Record<string, unknown>);
      await catalogApi.DELETE('/v1/wizards/{wizard_id}', { params: { path: { wizard_id: wizard.id } } });
      return onFinished(model as unknown as Component);
    }
    const into = (place: Place) =>
      data(
        catalogApi.POST('/v1/wizards/{wizard_id}/finish', {
          params: { path: { wizard_id: wizard.id }, header: headerOf(place.session) },
          body: { environment_id: place.environmentId, session_id: place.session },
        }),
      );
    try {
      const done = await into(at).catch(async (error: unknown) => {
        if (!(error instanceof ApiError) || error.status !== 403) throw error;
        // What was deployed meanwhile has ended the session, also when it was deployed in another tab: A2.
        const session = await ensureSession(queries, at.environmentId);
        if (session === at.session) throw error;
        return into({ ...at, session });
      });
      await queries.invalidateQueries({ queryKey: ['environment', at.environmentId] });
      onFinished(done.component as unknown as Component, done.changed);
    } catch (error) {
      // Components that fields name are in it already: it stays until the form is left.
      if (Object.keys(made).length === 0) await unmake?.();
      throw error;
    }
  };
  const submit = async () => {
    setBusy(true);
    setProblem('');
    try {
      if (!page) return await finish();
      const answer = await data(
        catalogApi.POST('/v1/wizards/{wizard_id}/pages/{page}', { params: { path: { wizard_id: wizard.id, page: name }, ...params }, body: { values: values as Record<string, never> } }),
      );
      if (!answer.valid) {
        setErrors(answer.errors);
        setTouched(new Set(Object.keys(values)));
        if (answer.page) setPage(answer.page);
        setToFocus({ first: '[aria-invalid=true]' });
      } else if (answer.next && answer.page) show(answer.page);
      else if (answer.complete) await finish();
    } catch (error) {
      void failed(error);
    } finally {
      setBusy(false);
    }
  };
  const back = async () => {
    const before = wizard.form.pages[(page?.number ?? 1) - 2];
    if (!before) return;
    try {
      show(await data(catalogApi.GET('/v1/wizards/{wizard_id}/pages/{page}', { params: { path: { wizard_id: wizard.id, page: before.name }, ...params } })));
    } catch (error) {
      void failed(error);
    }
  };
  const noted = leaving.changed;
  const change = useCallback((field: string, value: unknown) => {
    noted();
    setValues((was) => ({ ...was, [field]: value }));
    setTouched((was) => (was.has(field) ? was : new Set(was).add(field)));
  }, [noted]);
  /** A component was made for a field: it is what the field has, or one more of what it has. */
  const chosen = (field: FormField, id: string) => {
    noted();
    setValues((was) => ({ ...was, [field.name]: field.control === 'objects' ? [...textsOf(was[field.name]), id] : id }));
    setTouched((was) => (was.has(field.name) ? was : new Set(was).add(field.name)));
  };
  const place = useRef(make);
  place.current = make;
  const creating = useCallback(
    (field: FormField, chosen: Catalog['FormPackage']) => {
      const open = () => setNested({ field, packageId: chosen.id, name: chosen.name });
      if (!place.current) return open();
      place.current().then(open, (error: unknown) => void failed(error));
    },
    // eslint-disable-next-line react-hooks/exhaustive-deps
    [],
  );
  const created = async (field: FormField, component: Component) => {
    setNested(null);
    if (make) {
      const label = component['?'].name ?? component.name ?? component['?'].id;
      setMade((was) => ({ ...was, [field.path]: [...(was[field.path] ?? []), { value: component['?'].id, label }] }));
      return chosen(field, component['?'].id);
    }
    // The new component is among the choices now.
    const fresh = await data(catalogApi.GET('/v1/wizards/{wizard_id}/pages/{page}', { params: { path: { wizard_id: wizard.id, page: name }, ...params } }));
    setPage(fresh);
    chosen(field, component['?'].id);
  };
  const again = async () => {
    setBusy(true);
    try {
      const fresh = await data(catalogApi.GET('/v1/wizards/{wizard_id}', { params: { path: { wizard_id: wizard.id }, header: headerOf(session), query: { language, refresh: 'true' } } }));
      const same = fresh.form.pages.find((one) => one.name === name);
      if (same) show(same);
    } catch (error) {
      void failed(error);
    } finally {
      setBusy(false);
    }
  };
  const shown = page?.fields.filter((one) => one.visible && !one.hidden) ?? [];
  // What is wrong with fields that nobody sees is said above the others.
  const unseen = (page?.fields ?? []).filter((one) => !shown.includes(one)).flatMap((one) => (errors[one.name] ?? []).map((text) => `${one.label}: ${text}`));
  const said = page?.problem ?? (problem || [...(errors['page'] ?? []), ...unseen].join(' '));
  const flavors = shown.filter((one) => one.type === 'flavor');
  const last = !page || page.number >= count;
  return (
    <Around value={noted}>
      {leaving.question}
      <form
        ref={form}
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <Stack gap="md">
          {changes && wizard.package.version && (
            <Text size="sm" c="dimmed">
              {t('ofVersion', { version: wizard.package.version })}
            </Text>
          )}
          {wizard.form.warnings.length > 0 && (
            <Alert variant="light" color="yellow" title={t('warnings')}>
              {wizard.form.warnings.map((one) => (
                <Text key={one} size="sm">
                  {one}
                </Text>
              ))}
            </Alert>
          )}
          {page && count > 1 && (
            <div>
              <Title order={2} mb={6}>
                {t('step', { number: page.number, count })}
              </Title>
              <Progress value={(100 * page.number) / count} size="sm" aria-label={t('step', { number: page.number, count })} />
            </div>
          )}
          {said && (
            <Alert color="red" variant="light" role="alert">
              <Stack gap="xs" align="flex-start">
                {said}
                {page?.problem && (
                  <Button size="xs" variant="default" loading={busy} onClick={() => void again()}>
                    {t('again')}
                  </Button>
                )}
              </Stack>
            </Alert>
          )}
          {page?.notes.map((note) => (
            <Alert key={note.title} variant="light" color="gray" title={note.title}>
              <Text size="sm" style={{ whiteSpace: 'pre-line' }}>
                {note.text}
              </Text>
            </Alert>
          ))}
          {shown.length === 0 && <Text c="dimmed">{t('empty')}</Text>}
          {shown.map((field) => (
            <Field
              key={field.path}
              field={made[field.path] ? { ...field, choices: [...(field.choices ?? []), ...(made[field.path] ?? [])] } : field}
              value={values[field.name]}
              confirmation={field.confirmation ? values[field.confirmation] : undefined}
              errors={touched.has(field.name) ? errors[field.name] : undefined}
              onValue={change}
              onCreating={creating}
            />
          ))}
          {flavors.length > 0 && !deliver && (
            <Suspense fallback={null}>
              <Bars fields={flavors} values={values} environmentId={environmentId} session={session} />
            </Suspense>
          )}
          {last && beforeEnd}
          <Group justify="space-between" mt="sm">
            <Button variant="default" onClick={onCancel}>
              {t('cancel')}
            </Button>
            <Group>
              {page && page.number > 1 && (
                <Button variant="default" onClick={() => void back()}>
                  {t('back')}
                </Button>
              )}
              <Button type="submit" loading={busy}>
                {last ? t(changes ? 'save' : deliver ? 'finishTemplate' : make ? 'finishNew' : 'finish') : t('next')}
              </Button>
            </Group>
          </Group>
        </Stack>
      </form>
      {nested && (
        <FormDialog opened onClose={() => setNested(null)} title={t('title', { name: nested.name })} size="lg">
          <Wizard packageId={nested.packageId} {...(environmentId && session ? { environmentId, session } : {})} {...(templateId ? { templateId } : {})} {...(deliver ? { deliver } : {})} onCancel={() => setNested(null)} onFinished={(component) => void created(nested.field, component)} />
        </FormDialog>
      )}
    </Around>
  );
}

/** What the fields show; a secret that is filled in already is not sent again. */
export function valuesOf(page: FormPage | undefined): Values {
  return Object.fromEntries((page?.fields ?? []).filter((one) => !one.secret).map((one) => [one.name, one.value]));
}
