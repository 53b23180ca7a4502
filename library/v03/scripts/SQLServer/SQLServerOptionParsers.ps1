function New-SQLServerOptions {
    # The options of an unattended installation of the database engine.
    param([string] $SAPassword, [bool] $MixedModeAuth, [string] $ServiceAccount, [string] $ServicePassword)
    $options = [ordered] @{
        Q = $true; ACTION = 'Install'; IACCEPTSQLSERVERLICENSETERMS = $true
        FEATURES = 'SQLENGINE,CONN'; INSTANCENAME = 'MSSQLSERVER'; TCPENABLED = '1'
        SQLSYSADMINACCOUNTS = 'BUILTIN\Administrators'
    }
    if ($MixedModeAuth) {
        if (-not $SAPassword) { throw 'Mixed mode authentication needs the password of sa' }
        $options.SECURITYMODE = 'SQL'
        $options.SAPWD = $SAPassword
    }
    if ($ServiceAccount) {
        $options.SQLSVCACCOUNT = $ServiceAccount
        $options.SQLSVCPASSWORD = $ServicePassword
    }
    $options
}
